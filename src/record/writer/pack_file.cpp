#include "record/writer/pack_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstring>
#include <utility>

#include "dump/formats/pack.h"

namespace sonde {
namespace {

constexpr std::size_t kStageBytes = kPackHeadBytes + (2 << 20);
constexpr std::size_t kMostPathBytes = kPackHeadBytes - kPackFieldBytes;
constexpr std::uint64_t kSectionBytes = 16 << 20;  // from here on a section is written
constexpr std::size_t kStaged = 64 << 10;          // smaller tensors are gathered in one piece
constexpr std::size_t kMostParts = IOV_MAX / 2;

template <typename Number>
Number up(Number bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

}  // namespace

Pages::Pages(std::size_t bytes) : bytes_(bytes) {
  void* pages = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages != MAP_FAILED) data_ = static_cast<std::byte*>(pages);
}

Pages::~Pages() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

PackFile::PackFile(Fd file, std::string path) : file_(std::move(file)), path_(std::move(path)), stage_(kStageBytes) {
  begin_section();
}

void PackFile::begin_section() {
  begin_ = up(at_, kPackUnit);
  at_ = begin_ + kPackHeadBytes;
  piece_ = 0;
  staged_ = kPackHeadBytes;
  paths_.clear();
  parts_.clear();
  blocks_.clear();
  copies_.clear();
  expected_.clear();
}

bool PackFile::has_room(std::size_t path_bytes, std::size_t bytes) const {
  const bool is_first = paths_.empty();
  const std::size_t staged = bytes < kStaged ? up(bytes, kPackAlignment) + kPackUnit : kPackUnit;
  return is_first || (paths_.size() + path_bytes + 1 <= kMostPathBytes && at_ - begin_ + bytes <= kSectionBytes &&
                      staged_ + staged <= kStageBytes && parts_.size() + 2 <= kMostParts);
}

std::string PackFile::listed(std::string_view own, std::uint64_t offset, std::size_t bytes) {
  std::string prefix = packed_prefix(path_, offset, bytes);
  paths_.append(prefix).append(own).append(1, '\0');
  return prefix;
}

// Ends the staged piece with zeros, so that what follows begins at a unit, in memory as in the file.
void PackFile::end_piece() {
  const std::size_t end = up(staged_, kPackUnit);
  std::memset(stage_.data() + staged_, 0, end - staged_);
  if (end > piece_) parts_.push_back({stage_.data() + piece_, end - piece_});
  piece_ = staged_ = end;
  at_ = up(at_, kPackUnit);
}

// Room for a small tensor, aligned in the file.
std::byte* PackFile::stage(std::size_t bytes) {
  const std::size_t gap = up(staged_, kPackAlignment) - staged_;
  std::memset(stage_.data() + staged_, 0, gap);
  std::byte* out = stage_.data() + staged_ + gap;
  staged_ += gap + bytes;
  at_ += gap;
  return out;
}

std::string PackFile::add(std::string_view own, std::string_view header, BlockPtr block) {
  if (stage_.data() == nullptr) return {};
  const std::size_t bytes = header.size() + block->bytes;
  if (bytes < kStaged || block->page == nullptr || header.size() != kHeadroom) {
    return add(own, bytes, [&](std::byte* out) {
      std::memcpy(out, header.data(), header.size());
      std::memcpy(out + header.size(), block->data, block->bytes);
    });
  }
  end_piece();
  const std::size_t padded = up(bytes, kPackUnit);  // the block's memory ends at a page, too
  std::memcpy(block->page, header.data(), header.size());
  std::memset(block->page + bytes, 0, padded - bytes);
  parts_.push_back({block->page, padded});
  std::string prefix = listed(own, at_, bytes);
  at_ += padded;
  blocks_.push_back(std::move(block));
  return prefix;
}

std::string PackFile::add(std::string_view own, std::size_t bytes, const Fill& fill) {
  if (stage_.data() == nullptr) return {};
  if (bytes < kStaged) {
    fill(stage(bytes));
    std::string prefix = listed(own, at_, bytes);
    at_ += bytes;
    return prefix;
  }
  end_piece();
  const std::size_t padded = up(bytes, kPackUnit);
  Pages& copy = copies_.emplace_back(padded);
  if (copy.data() == nullptr) return {};
  fill(copy.data());
  parts_.push_back({copy.data(), padded});
  std::string prefix = listed(own, at_, bytes);
  at_ += padded;
  return prefix;
}

void PackFile::add_link(std::string_view path) { paths_.append(path).append(1, '\0'); }

int PackFile::write(WriteMethod& method, bool keeps_up, std::uint64_t& written) {
  std::uint64_t bytes = 0;
  for (const iovec& part : parts_) bytes += part.iov_len;
  const bool either = bytes >= WriteMethod::kLeastBytes;
  WriteMethod::Kind kind = either ? method.next(keeps_up) : WriteMethod::cached;
  ::fcntl(file_.get(), F_SETFL, kind == WriteMethod::direct ? O_DIRECT : 0);
  const auto start = std::chrono::steady_clock::now();
  std::vector<iovec> rest = parts_;
  for (std::size_t first = 0; first < rest.size();) {
    const auto count = static_cast<int>(rest.size() - first);
    const ssize_t done = ::writev(file_.get(), &rest[first], count);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0 && errno == EINVAL && kind == WriteMethod::direct) {  // this file system has no direct writes
      method.no_direct();
      kind = WriteMethod::cached;
      if (::fcntl(file_.get(), F_SETFL, 0) == 0) continue;
    }
    if (done <= 0) return done < 0 ? errno : ENOSPC;
    written += static_cast<std::uint64_t>(done);
    auto left = static_cast<std::size_t>(done);
    while (first < rest.size() && left >= rest[first].iov_len) left -= rest[first++].iov_len;
    if (left == 0) continue;
    rest[first].iov_base = static_cast<char*>(rest[first].iov_base) + left;
    rest[first].iov_len -= left;
    // A part of a unit cannot be written directly.
    if (left % kPackUnit != 0 && kind == WriteMethod::direct) {
      kind = WriteMethod::cached;
      if (::fcntl(file_.get(), F_SETFL, 0) != 0) return errno;
    }
  }
  const auto taken = std::chrono::steady_clock::now() - start;
  if (either) method.took(kind, bytes, static_cast<std::uint64_t>(std::chrono::nanoseconds(taken).count()));
  return 0;
}

// Some file systems report a full disk only when a file is closed; any descriptor of it will do.
int PackFile::ask_for_late_error() {
  const int copy = ::fcntl(file_.get(), F_DUPFD_CLOEXEC, 0);
  if (copy < 0) return 0;  // no descriptors left: the error comes with a later section
  return ::close(copy) != 0 && errno != EINTR ? errno : 0;
}

int PackFile::flush(WriteMethod& method, std::vector<StoredFile>& stored) {
  if (paths_.empty()) return 0;
  if (stage_.data() == nullptr) {
    begin_section();
    return ENOMEM;
  }
  end_piece();
  const std::string head = pack_head(at_ - begin_, paths_);
  std::memcpy(stage_.data(), head.data(), head.size());
  std::memset(stage_.data() + head.size(), 0, kPackHeadBytes - head.size());
  std::uint64_t written = 0;
  const bool keeps_up = blocks_.empty() || !blocks_.front().get_deleter().pool->is_crowded();
  int error_number = write(method, keeps_up, written);
  if (const int late = ask_for_late_error(); late != 0) {
    written = 0;
    if (error_number == 0) error_number = late;
  }
  for (Expected& one : expected_) {
    if (one.end <= begin_ + written) stored.push_back(std::move(one.stored));
  }
  begin_section();
  return error_number;
}

}  // namespace sonde
