#include "dump/summary/summary_rows.h"

#include <fcntl.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::array<char, 8> kSummaryMagic = {'S', 'O', 'N', 'D', 'E', 'S', 'U', 'M'};
constexpr std::uint32_t kSummaryVersion = 1;

struct FileHead {
  std::array<char, 8> magic = kSummaryMagic;
  std::uint32_t version = kSummaryVersion;
  std::uint32_t levels = kSummaryLevels;
  std::uint32_t capacity = 0;
  std::uint32_t slots = 0;
};
static_assert(sizeof(FileHead) == 24);

struct RowHead {
  std::uint64_t first_step = 0;
  std::uint64_t number = 0;
  std::uint32_t series = 0;
  std::uint32_t has_peaks = 0;
};
static_assert(sizeof(RowHead) == 24);

constexpr std::size_t kCheckBytes = sizeof(std::uint64_t);

std::uint32_t cells_of(std::uint32_t level) { return level == 0 ? 1 : 2; }

std::size_t bytes_of_row(std::uint32_t level, std::uint32_t series) {
  return sizeof(RowHead) + std::size_t{series} * cells_of(level) * sizeof(SummaryCell) + kCheckBytes;
}

void append_bytes(std::string& to, const void* from, std::size_t bytes) {
  to.append(static_cast<const char*>(from), bytes);
}

void append_cells(std::string& to, std::span<const SummaryCell> cells) {
  append_bytes(to, cells.data(), cells.size_bytes());
}

std::uint64_t check_of(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

std::vector<SummaryCell> cells_at(std::string_view bytes, std::size_t count) {
  std::vector<SummaryCell> cells(count);
  if (count > 0) std::memcpy(cells.data(), bytes.data(), count * sizeof(SummaryCell));
  return cells;
}

// Nothing if a process was killed while it wrote the row.
std::optional<SummaryRow> row_of(std::string_view bytes, std::uint32_t level, std::uint32_t capacity) {
  RowHead head;
  if (bytes.size() < bytes_of_row(level, 0)) return std::nullopt;
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.series == 0 || head.series > capacity || head.has_peaks != (level == 0 ? 0U : 1U)) return std::nullopt;
  const std::size_t size = bytes_of_row(level, head.series);
  if (bytes.size() < size) return std::nullopt;
  std::uint64_t check = 0;
  std::memcpy(&check, bytes.data() + size - kCheckBytes, kCheckBytes);
  if (check != check_of(bytes.substr(0, size - kCheckBytes))) return std::nullopt;
  SummaryRow row{.first_step = head.first_step, .number = head.number, .samples = {}, .peaks = {}};
  const std::string_view cells = bytes.substr(sizeof head);
  row.samples = cells_at(cells, head.series);
  if (level > 0) row.peaks = cells_at(cells.substr(head.series * sizeof(SummaryCell)), head.series);
  return row;
}

Error not_rows(const fs::path& path, const std::string& why) {
  return Error{ErrorCode::corrupt, "cannot read '" + path.string() + "': " + why};
}

}  // namespace

std::uint32_t summary_slots(std::uint32_t capacity) {
  std::uint64_t bytes = 0;  // a slot of each level
  for (std::uint32_t level = 0; level < kSummaryLevels; ++level) bytes += bytes_of_row(level, capacity);
  const std::uint64_t fitting = kMostSummaryBytes / bytes;
  return static_cast<std::uint32_t>(std::clamp<std::uint64_t>(fitting, kLeastSummarySlots, kMostSummarySlots));
}

Result<SummaryRows> SummaryRows::create(int directory, const fs::path& path, const char* name, std::uint32_t capacity) {
  Fd file(::openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, kOpenMode));
  if (!file) return io_error("make", path / name, errno);
  const FileHead head{.capacity = capacity, .slots = summary_slots(capacity)};
  std::string bytes;
  append_bytes(bytes, &head, sizeof head);
  if (const int error = write_at(file.get(), 0, bytes.data(), bytes.size()))
    return io_error("write", path / name, error);
  return SummaryRows(std::move(file), path / name, capacity, head.slots);
}

Result<SummaryRows> SummaryRows::open(const fs::path& path) {
  Fd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return io_error("open", path, errno);
  FileHead head;
  const std::string bytes = text_at(file.get(), 0, sizeof head);
  if (bytes.size() < sizeof head) return not_rows(path, "it ends before its first row");
  std::memcpy(&head, bytes.data(), sizeof head);
  if (head.magic != kSummaryMagic) return not_rows(path, "it is not the file of a summary");
  if (head.version != kSummaryVersion) {
    return not_rows(path, "it has version " + std::to_string(head.version) + " of the format, and this Sonde reads " +
                              std::to_string(kSummaryVersion));
  }
  const bool is_sound = head.levels == kSummaryLevels && head.capacity > 0 && head.capacity <= kMostSummarySeries &&
                        head.slots >= kLeastSummarySlots && head.slots <= kMostSummarySlots;
  if (!is_sound) return not_rows(path, "its sizes are damaged");
  return SummaryRows(std::move(file), path, head.capacity, head.slots);
}

std::size_t SummaryRows::row_bytes(std::uint32_t level) const { return bytes_of_row(level, capacity_); }

std::uint64_t SummaryRows::offset_of(std::uint32_t level, std::uint64_t number) const {
  std::uint64_t at = sizeof(FileHead);
  for (std::uint32_t finer = 0; finer < level; ++finer) at += std::uint64_t{slots_} * row_bytes(finer);
  return at + (number % slots_) * row_bytes(level);
}

Status SummaryRows::write(std::uint32_t level, const SummaryRow& row) {
  const RowHead head{.first_step = row.first_step,
                     .number = row.number,
                     .series = static_cast<std::uint32_t>(row.samples.size()),
                     .has_peaks = level == 0 ? 0U : 1U};
  buffer_.clear();
  append_bytes(buffer_, &head, sizeof head);
  append_cells(buffer_, row.samples);
  if (level > 0) append_cells(buffer_, row.peaks);
  const std::uint64_t check = check_of(buffer_);
  append_bytes(buffer_, &check, sizeof check);
  const int error = write_at(file_.get(), offset_of(level, row.number), buffer_.data(), buffer_.size());
  return error == 0 ? Status() : Status(io_error("write", path_, error));
}

std::vector<SummaryRow> SummaryRows::read(std::uint32_t level) const {
  std::vector<SummaryRow> rows;
  for (std::uint32_t slot = 0; slot < slots_; ++slot) {
    const std::uint64_t at = offset_of(level, slot);
    // Most slots of the coarse levels are empty: their cells need not be read.
    if (const std::string head = text_at(file_.get(), at, sizeof(RowHead));
        head.find_first_not_of('\0') == std::string::npos) {
      continue;
    }
    std::optional<SummaryRow> row = row_of(text_at(file_.get(), at, row_bytes(level)), level, capacity_);
    if (row && row->number % slots_ == slot) rows.push_back(std::move(*row));
  }
  std::ranges::sort(rows, {}, &SummaryRow::number);
  return rows;
}

}  // namespace sonde
