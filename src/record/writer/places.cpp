#include "record/writer/places.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "ground/files/safe_path.h"

namespace sonde {
namespace {

constexpr int kNameAttempts = 1000;
constexpr std::size_t kMostOpen = 16;  // late files must not keep directories of old steps open forever

// ".npy", ".json"; empty for the files that CANN writes, whose names end in a time.
std::string extension_of(const std::string& name) {
  for (const std::string_view known : {".npy", ".bin", ".json", ".csv"}) {
    if (name.ends_with(known)) return std::string(known);
  }
  return {};
}

}  // namespace

Result<OpenDirectory*> Places::of(const NamedRecord& record) {
  std::string path = layout_.directory_of(record);
  for (const auto& known : open_) {
    if (known->path != path) continue;
    known->step = record.step;
    return known.get();
  }
  if (open_.size() >= kMostOpen) open_.erase(open_.begin());
  auto fresh = std::make_unique<OpenDirectory>();
  fresh->step = record.step;
  fresh->full_path = layout_.rank_directory() / path;
  Result<Fd> directory = open_below(rank_, layout_.rank_directory(), path, Missing::make);
  if (!directory) return directory.error();
  fresh->directory = std::move(*directory);
  fresh->path = std::move(path);
  open_.push_back(std::move(fresh));
  return open_.back().get();
}

int Places::place(OpenDirectory& directory, const Name& name, const Put& put, std::string& path) {
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const std::string wanted = name(attempt);
    if (wanted.size() > NAME_MAX) return place_long(directory, wanted, put, path);
    const int error_number = put(directory.directory.get(), wanted.c_str());
    if (error_number == ENAMETOOLONG) return place_long(directory, wanted, put, path);
    if (error_number == EEXIST) continue;
    if (error_number == 0) path = directory.path + wanted;
    return error_number;
  }
  return EEXIST;
}

// "{number}.npy", and a line in mapping.csv with the full name. The line is written first: a line without a file is
// harmless, a number without a line is a lost tensor. MindSpore's numbers are random, CANN's are hashes.
int Places::place_long(OpenDirectory& directory, const std::string& name, const Put& put, std::string& path) {
  if (!directory.mapping) {
    Result<AppendFile> mapping = AppendFile::open(directory.directory.get(), directory.full_path / "mapping.csv", {});
    if (!mapping) {
      mapping_error_ = mapping.error();
      return EIO;
    }
    directory.mapping = std::move(*mapping);
  }
  const std::string extension = extension_of(name);
  for (int attempt = 0; attempt < kNameAttempts; ++attempt) {
    const std::uint64_t digits =
        extension.empty() ? std::hash<std::string>()(name) + static_cast<std::uint64_t>(attempt) : random_();
    const std::string number = std::to_string(digits) + extension;
    if (::faccessat(directory.directory.get(), number.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0) continue;
    directory.mapping->rows().append(number).append(",").append(name).append("\n");
    if (!directory.mapping->flush()) return ENOSPC;
    const int error_number = put(directory.directory.get(), number.c_str());
    if (error_number == 0) path = directory.path + number;
    if (error_number != EEXIST) return error_number;
  }
  return EEXIST;
}

Error Places::error(std::string_view operation, const OpenDirectory& directory, int error_number) const {
  return mapping_error_ ? *mapping_error_ : io_error(operation, directory.full_path, error_number);
}

void Places::close_step(StepId step) {
  std::erase_if(open_, [&](const auto& known) { return known->step == step; });
}

}  // namespace sonde
