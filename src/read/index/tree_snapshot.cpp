#include "read/index/tree_snapshot.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "ground/base/mutex.h"
#include "ground/base/parallel.h"
#include "ground/files/directory.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostTensorFiles = 20000;  // up to this number each file is examined: some 20 ms
constexpr int kDeepest = 24;                     // levels of directories
constexpr std::size_t kReadPiece = 256;          // files that one thread examines before it takes the next piece

std::int64_t nanoseconds(const timespec& time) { return time.tv_sec * 1'000'000'000LL + time.tv_nsec; }

// A file of which a catalog uses only the name.
bool holds_one_tensor(std::string_view name) {
  return name.ends_with(".npy") || name.ends_with(".bin") || name.ends_with(".pt");
}

SourceState state_of(std::string path, const struct stat& status) {
  SourceState state;
  const bool is_directory = S_ISDIR(status.st_mode);
  state.path = std::move(path);
  state.kind = is_directory ? SourceState::Kind::directory : SourceState::Kind::file;
  state.inode = status.st_ino;
  state.size = is_directory ? 0 : static_cast<std::uint64_t>(status.st_size);
  state.mtime_ns = nanoseconds(status.st_mtim);
  state.ctime_ns = nanoseconds(status.st_ctim);
  return state;
}

SourceState look_at(int at, std::string path) {
  struct stat status {};
  const char* const name = path.empty() ? "." : path.c_str();
  if (::fstatat(at, name, &status, 0) == 0) return state_of(std::move(path), status);
  SourceState missing;
  missing.path = std::move(path);
  return missing;
}

template <typename Work>
void for_pieces(const Threads& threads, std::size_t count, const Work& work) {
  threads.for_each((count + kReadPiece - 1) / kReadPiece, [&](std::size_t piece) {
    for (std::size_t i = piece * kReadPiece; i < std::min(count, (piece + 1) * kReadPiece); ++i) work(i);
  });
}

Fd open_root(const fs::path& path) { return Fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)); }

class TreeWalk {
 public:
  TreeWalk(int root, TreeSnapshot& out) : root_(root), out_(out) {}

  // Level by level; the directories of one level are read in parallel.
  void run(std::vector<std::string> level) {
    for (int depth = 0; depth < kDeepest && !level.empty(); ++depth) {
      std::vector<std::string> below;
      threads_.for_each(level.size(), [&](std::size_t i) {
        Found found = look_into(level[i]);
        const Lock lock(mutex_);
        take(std::move(found), below);
      });
      level = std::move(below);
    }
    if (tensor_files_ <= kMostTensorFiles) add_files(tensors_);
  }

 private:
  struct Found {
    std::vector<SourceState> states;
    std::vector<std::string> directories, tensors;
    std::size_t tensor_files = 0, files = 0;
  };

  Found look_into(const std::string& directory) {
    Found found;
    const char* const name = directory.empty() ? "." : directory.c_str();
    Fd open(::openat(root_, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!open) {  // not a directory, or not readable
      found.states.push_back(look_at(root_, directory));
      return found;
    }
    // Taken before the directory is read: a change in between shows at the next check.
    struct stat status {};
    if (::fstat(open.get(), &status) == 0) found.states.push_back(state_of(directory, status));
    const std::string prefix = directory.empty() ? "" : directory + "/";
    const int descriptor = open.get();
    for_each_entry(std::move(open), [&](std::string_view entry, fs::file_type type) {
      add(descriptor, std::string(entry), type, prefix, found);
    });
    return found;
  }

  void add(int directory, const std::string& name, fs::file_type type, const std::string& prefix, Found& found) {
    if (type == fs::file_type::directory) {
      found.directories.push_back(prefix + name);
      return;
    }
    ++found.files;
    struct stat status {};
    if (holds_one_tensor(name)) {
      ++found.tensor_files;
      if (tensor_files_ <= kMostTensorFiles) found.tensors.push_back(prefix + name);
    } else if (::fstatat(directory, name.c_str(), &status, 0) == 0 && !S_ISDIR(status.st_mode)) {
      found.states.push_back(state_of(prefix + name, status));
    }
  }

  void take(Found found, std::vector<std::string>& below) REQUIRES(mutex_) {
    std::ranges::move(found.states, std::back_inserter(out_.sources));
    std::ranges::move(found.directories, std::back_inserter(below));
    out_.files += found.files;
    tensor_files_ += found.tensor_files;
    if (tensor_files_ <= kMostTensorFiles) {
      std::ranges::move(found.tensors, std::back_inserter(tensors_));
    } else {
      tensors_ = {};
    }
  }

  void add_files(const std::vector<std::string>& paths) {
    const std::size_t first = out_.sources.size();
    out_.sources.resize(first + paths.size());
    for_pieces(threads_, paths.size(), [&](std::size_t i) { out_.sources[first + i] = look_at(root_, paths[i]); });
  }

  int root_;
  TreeSnapshot& out_;
  Threads threads_;
  Mutex mutex_;
  std::atomic<std::size_t> tensor_files_ = 0;
  std::vector<std::string> tensors_;
};

}  // namespace

Result<TreeSnapshot> TreeSnapshot::take(const fs::path& root, const std::vector<fs::path>& outside) {
  const Fd open = open_root(root);
  if (!open) {
    return Error{ErrorCode::io, "cannot look into '" + root.string() + "': " + std::strerror(errno)};
  }
  TreeSnapshot snapshot;
  TreeWalk(open.get(), snapshot).run({""});
  const std::uint64_t files = snapshot.files;
  std::vector<std::string> further;
  for (const fs::path& path : outside) further.push_back(path.native());
  TreeWalk(open.get(), snapshot).run(std::move(further));
  snapshot.files = files;
  std::ranges::sort(snapshot.sources, {}, &SourceState::path);
  for (const SourceState& state : snapshot.sources) {
    snapshot.newest_mtime_ns = std::max(snapshot.newest_mtime_ns, state.mtime_ns);
  }
  return snapshot;
}

std::string changed_source(const fs::path& root, const std::vector<SourceState>& sources) {
  const Fd open = open_root(root);
  if (!open) return "'" + root.string() + "': " + std::strerror(errno);
  std::atomic<std::size_t> first = sources.size();
  for_pieces(Threads(), sources.size(), [&](std::size_t i) {
    if (i > first || look_at(open.get(), sources[i].path) == sources[i]) return;
    std::size_t least = first;
    while (i < least && !first.compare_exchange_weak(least, i)) {
    }
  });
  if (first == sources.size()) return "";
  const SourceState& source = sources[first];
  const bool is_gone = look_at(open.get(), source.path).kind == SourceState::Kind::missing;
  return "'" + (source.path.empty() ? root.string() : source.path) + (is_gone ? "' is gone" : "' has changed");
}

}  // namespace sonde
