#include "record/writer/packs.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "ground/files/packed_path.h"

namespace sonde {
namespace {

constexpr std::size_t kMostPacks = 16;  // layouts with several directories for a step
constexpr int kPackAttempts = 1000;

}  // namespace

Result<PackFile*> Packs::open(const OpenDirectory& place, StepId step, std::size_t bytes, const Places& places,
                              WriteMethod& method, std::vector<StoredFile>& stored) {
  const std::size_t path_bytes = 3 * place.path.size() + 2 * NAME_MAX;
  for (OpenPack& pack : open_) {
    if (pack.directory != place.path) continue;
    pack.step = step;
    if (!pack.file.has_room(path_bytes, bytes)) {
      if (Status flushed = flush(method, stored); !flushed) return flushed.error();
    }
    return &pack.file;
  }
  if (open_.size() >= kMostPacks) {
    if (Status flushed = flush(method, stored); !flushed) return flushed.error();
    open_.erase(open_.begin());
  }
  for (int attempt = 0; attempt < kPackAttempts; ++attempt) {
    const std::string name = attempt == 0 ? kPackName : "tensors." + std::to_string(attempt) + ".pack";
    constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
    Fd file(::openat(place.directory.get(), name.c_str(), kFlags, kFinishedMode));
    if (!file && errno == EEXIST) continue;
    if (!file) return places.error("make a pack in", place, errno);
    open_.push_back({place.path, step, PackFile(std::move(file), place.path + name)});
    return &open_.back().file;
  }
  return places.error("make a pack in", place, EEXIST);
}

PackFile& Packs::in(const OpenDirectory& place) {
  return std::ranges::find(open_, place.path, &OpenPack::directory)->file;
}

Status Packs::flush(WriteMethod& method, std::vector<StoredFile>& stored) {
  Status status;
  for (OpenPack& pack : open_) {
    const int error_number = pack.file.flush(method, stored);
    if (error_number == 0 || !status) continue;
    status = io_error("write", layout_.rank_directory() / pack.file.path(), error_number);
  }
  return status;
}

void Packs::close_step(StepId step) {
  std::erase_if(open_, [&](const OpenPack& pack) { return pack.step == step; });
}

}  // namespace sonde
