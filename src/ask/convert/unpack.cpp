#include "ask/convert/unpack.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <system_error>

#include "dump/formats/pack.h"
#include "dump/journal/journal.h"
#include "dump/journal/rename_files.h"
#include "dump/layout/side_names.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/mapped_file.h"
#include "ground/files/packed_path.h"
#include "read/catalog/catalog.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// One directory that the paths of packs are relative to: that of a rank, or of several.
class Unpacker {
 public:
  Unpacker(fs::path from, fs::path to, Unpacked& done) : from_(std::move(from)), to_(std::move(to)), done_(done) {}

  // The tensors that the heads of `pack` list.
  Status add(const fs::path& pack) {
    ++done_.packs;
    const Result<PackContents> contents = read_pack(pack, pack.lexically_relative(from_).native());
    if (!contents) {
      done_.lost.push_back(contents.error().message);
      return {};
    }
    if (!contents->problem.empty() && !contents->is_tail) {
      done_.lost.push_back(cannot_read(pack, ErrorCode::corrupt, contents->problem).message);
    }
    for (const std::string& path : contents->paths) {
      if (Status written = add(path); !written) return written;
    }
    return {};
  }

  // One tensor by its path in the journal or in a head. Of several with one path the first counts.
  Status add(const std::string& path) {
    const std::optional<PackedPath> packed = packed_path(path);
    const fs::path own = packed ? fs::path(packed->own) : fs::path();
    const auto leads_out = [](const fs::path& one) { return one.is_absolute() || std::ranges::count(one, "..") > 0; };
    if (!packed || leads_out(path) || leads_out(own) || !names_.insert(own.native()).second) return {};
    const fs::path out = to_ / own;
    if (Status made = make_directories(out.parent_path()); !made) return made;
    const std::string place = packed_prefix(packed->pack, packed->offset, packed->bytes);
    if (const auto first = files_.find(place); first != files_.end()) {
      if (::link(first->second.c_str(), out.c_str()) == 0) {
        ++done_.files;
        return {};
      }
      if (errno == EEXIST) return io_error("write", out, EEXIST);
    }
    const Result<MappedFile> bytes = MappedFile::open(from_ / path);
    if (!bytes) {
      done_.lost.push_back(bytes.error().message);
      return {};
    }
    const Fd file(::open(out.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kFinishedMode));
    if (!file) return io_error("write", out, errno);
    if (const int error_number = write_all(file.get(), bytes->data(), bytes->bytes()); error_number != 0) {
      return io_error("write", out, error_number);
    }
    ++done_.files;
    done_.bytes += bytes->bytes();
    files_[place] = out;
    return {};
  }

 private:
  fs::path from_, to_;
  Unpacked& done_;
  std::set<std::string> names_;
  std::map<std::string, fs::path> files_;  // by place
};

Status copy_tree(const fs::path& from, const fs::path& to, const std::set<fs::path>& journals,
                 std::vector<fs::path>& packs) {
  if (Status listed = bring_tree(from); !listed) return listed;
  std::error_code error;
  for (fs::recursive_directory_iterator at(from, error), end; !error && at != end; at.increment(error)) {
    const fs::path target = to / at->path().lexically_relative(from);
    std::error_code problem;
    if (at->is_symlink(problem)) continue;  // a dump has none
    if (at->is_directory(problem)) {
      if (Status made = make_directories(target); !made) return made;
    } else if (at->is_regular_file(problem) && is_pack_name(at->path().filename().native())) {
      packs.push_back(at->path());
    } else if (at->is_regular_file(problem) && !journals.contains(at->path())) {
      if (Status brought = bring_file(at->path()); !brought) return brought;
      if (!fs::copy_file(at->path(), target, problem)) return io_error("write", target, problem.value());
    }
  }
  std::ranges::sort(packs);
  return error ? Status(io_error("look into", from, error.value())) : Status();
}

Status write_journal(const fs::path& from, const fs::path& to, Unpacker& unpacker) {
  const Result<std::string> bytes = read_whole_file(from);
  if (!bytes) return bytes.error();
  Status status;
  const std::string renamed = rename_files(*bytes, [&](const std::string& file) {
    const std::optional<PackedPath> packed = packed_path(file);
    if (!packed) return file;
    if (status) status = unpacker.add(file);
    return std::string(packed->own);
  });
  if (!status) return status;
  const Fd file(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kFinishedMode));
  const int error_number = file ? write_all(file.get(), renamed.data(), renamed.size()) : errno;
  return error_number == 0 ? Status() : Status(io_error("write", to, error_number));
}

}  // namespace

Result<Unpacked> unpack(const fs::path& dump, const fs::path& out) {
  const Result<Catalog> catalog = open_catalog(dump);
  if (!catalog) return catalog.error();
  std::error_code error;
  if (fs::exists(out, error)) {
    return Error{ErrorCode::invalid_argument, fmt::format("'{}' exists already; choose a new directory", out.string())};
  }
  const fs::path root = fs::canonical(dump, error);
  if (error) return io_error("open", dump, error.value());
  const fs::path inside = fs::weakly_canonical(out, error).lexically_relative(root);
  if (!inside.empty() && *inside.begin() != "..") {
    return Error{ErrorCode::invalid_argument,
                 fmt::format("'{}' is inside the dump; choose a directory outside", out.string())};
  }
  std::set<fs::path> journals;
  for (const CatalogRank& rank : catalog->ranks) {
    if (rank.has_journal) journals.insert(fs::canonical(journal_in(rank.metadata), error));
  }
  Unpacked done;
  std::vector<fs::path> packs;
  if (Status made = make_directories(out); !made) return made.error();
  if (Status copied = copy_tree(root, out, journals, packs); !copied) return copied.error();
  std::map<fs::path, Unpacker> unpackers;
  for (const CatalogRank& rank : catalog->ranks) {
    const fs::path directory = fs::canonical(rank.directory, error);
    unpackers.try_emplace(directory, directory, out / directory.lexically_relative(root), done);
  }
  for (const fs::path& pack : packs) {
    const auto is_inside = [&](const auto& one) {
      const fs::path relative = pack.lexically_relative(one.first);
      return !relative.empty() && *relative.begin() != "..";
    };
    const auto owner = std::ranges::find_if(unpackers, is_inside);
    if (owner == unpackers.end()) {
      done.lost.push_back(cannot_read(pack, ErrorCode::corrupt, "it belongs to no rank of the dump").message);
    } else if (Status added = owner->second.add(pack); !added) {
      return added.error();
    }
  }
  for (const CatalogRank& rank : catalog->ranks) {
    if (!rank.has_journal) continue;
    const fs::path journal = fs::canonical(journal_in(rank.metadata), error);
    Unpacker& unpacker = unpackers.at(fs::canonical(rank.directory, error));
    if (Status written = write_journal(journal, out / journal.lexically_relative(root), unpacker); !written) {
      return written.error();
    }
  }
  return done;
}

}  // namespace sonde
