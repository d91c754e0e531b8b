#include "dump/summary/summary_writer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "dump/summary/summary_files.h"
#include "ground/files/safe_path.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::uint16_t kMostEvents = 16;  // of a series: a loss scaler makes infinities every few thousand steps
constexpr int kMostSummaries = 10'000;     // runs of one rank in one directory
constexpr const char* kNewRows = "summary.rows.new";

// Takes what `part` has of a series into `into`, whose first step is `shift` steps earlier.
void merge(const SummaryCell& part, std::uint64_t shift, bool keeps_first, SummaryCell& into) {
  if (!part.is_read()) return;
  if (into.is_read() && (keeps_first || !is_worse(part, into))) return;
  into = part;
  into.offset += static_cast<std::uint32_t>(std::min<std::uint64_t>(shift, SummaryCell::kNotRead - 1 - part.offset));
}

std::uint32_t capacity_of_series(std::size_t series) {
  const std::size_t roomy = series + series / 4 + 16;  // a module that is called later needs no new file
  return static_cast<std::uint32_t>(std::min<std::size_t>(roomy, kMostSummarySeries));
}

}  // namespace

SummaryWriter::SummaryWriter(fs::path root, fs::path rank, bool is_limited)
    : root_(std::move(root)),
      rank_(std::move(rank)),
      windows_(kSummaryLevels),
      new_series_(is_limited ? kSeriesLimited : "") {}

std::optional<std::uint32_t> SummaryWriter::series(SummarySeries series) {
  if (is_bad_.size() >= kMostSummarySeries) {
    if (!left_out_) new_series_ += kSeriesLeftOut;
    left_out_ = true;
    return std::nullopt;
  }
  new_series_ += text_of(series);
  is_bad_.push_back(0);
  events_.push_back(0);
  now_.samples.emplace_back();
  return static_cast<std::uint32_t>(is_bad_.size() - 1);
}

Status SummaryWriter::begin_step(std::uint64_t step) {
  if (Status ended = end_step(); !ended) return ended;
  step_ = step_ ? std::max(step, *step_ + 1) : step;
  now_.first_step = *step_;
  return {};
}

Status SummaryWriter::add(std::uint32_t series, const Statistics& statistics) {
  if (!step_ || series >= now_.samples.size()) return {};
  const SummaryCell cell = cell_of(statistics);
  SummaryCell& kept = now_.samples[series];
  const bool turned_bad = cell.is_bad() && is_bad_[series] == 0 && !kept.is_bad();
  if (is_worse(cell, kept)) kept = cell;
  if (!turned_bad || events_[series] >= kMostEvents) return {};
  ++events_[series];
  // At once: the program may end because of it.
  if (Status opened = open(); !opened) return opened;
  if (Status named = write_series(); !named) return named;
  return append_to(events_file_, kSummaryEvents, text_of(SummaryEvent{*step_, series, cell}));
}

Status SummaryWriter::close() {
  if (Status ended = end_step(); !ended) return ended;
  step_.reset();
  return {};
}

Status SummaryWriter::end_step() {
  const bool any = std::ranges::any_of(now_.samples, &SummaryCell::is_read);
  if (!step_ || !any) return {};
  if (Status opened = open(); !opened) return opened;
  if (Status named = write_series(); !named) return named;
  if (Status made = open_rows(); !made) return made;
  now_.number = steps_;
  Status written = write_row(0, now_);
  for (std::size_t i = 0; i < now_.samples.size(); ++i) {
    SummaryCell& cell = now_.samples[i];
    if (cell.is_read()) is_bad_[i] = cell.is_bad() ? 1 : 0;
    cell = SummaryCell();
  }
  ++steps_;
  return written;
}

Status SummaryWriter::write_row(std::uint32_t level, const SummaryRow& row) {
  if (Status written = rows_->write(level, row); !written) return written;
  return level + 1 < kSummaryLevels ? pass_on(level + 1, row) : Status();
}

// `part`, a complete window of the level below, belongs to the open one of this level.
Status SummaryWriter::pass_on(std::uint32_t level, const SummaryRow& part) {
  Window& window = windows_[level];
  if (window.parts == 0) {
    window.row = {.first_step = part.first_step, .number = part.number / kSummaryWindow, .samples = {}, .peaks = {}};
  }
  window.row.samples.resize(part.samples.size());  // series only become more
  window.row.peaks.resize(part.samples.size());
  const std::uint64_t shift = part.first_step - window.row.first_step;
  const std::vector<SummaryCell>& peaks = level == 1 ? part.samples : part.peaks;
  for (std::size_t i = 0; i < part.samples.size(); ++i) {
    merge(part.samples[i], shift, true, window.row.samples[i]);
    merge(peaks[i], shift, false, window.row.peaks[i]);
  }
  if (++window.parts < kSummaryWindow) return {};
  window.parts = 0;
  return write_row(level, window.row);
}

Status SummaryWriter::open() {
  if (directory_) return {};
  Result<Fd> root = open_dump_path(root_, Missing::make);
  if (!root) return root.error();
  Result<Fd> rank = open_below(root->get(), root_, rank_, Missing::make);
  if (!rank) return rank.error();
  for (int run = 0; run < kMostSummaries; ++run) {
    const std::string name = std::string(kSummaryDirectory) + std::to_string(run);
    const fs::path path = root_ / rank_ / name;
    if (::mkdirat(rank->get(), name.c_str(), kDirectoryMode) != 0) {
      if (errno == EEXIST) continue;
      return io_error("make", path, errno);
    }
    Result<Fd> made = open_below(rank->get(), root_ / rank_, name, Missing::leave);
    if (!made) return made.error();
    directory_ = std::move(*made);
    path_ = path;
    return {};
  }
  return Error{ErrorCode::io, "cannot record to '" + (root_ / rank_).string() + "': it has " +
                                  std::to_string(kMostSummaries) + " summaries; choose another path"};
}

Status SummaryWriter::open_rows() {
  if (rows_ && rows_->capacity() >= is_bad_.size()) return {};
  if (rows_) return make_room();
  Result<SummaryRows> made =
      SummaryRows::create(directory_.get(), path_, kSummaryRows, capacity_of_series(is_bad_.size()));
  if (!made) return made.error();
  rows_.emplace(std::move(*made));
  return {};
}

// There are more series than a row takes: a new file with wider rows takes the place of the old one.
Status SummaryWriter::make_room() {
  ::unlinkat(directory_.get(), kNewRows, 0);
  Result<SummaryRows> wider =
      SummaryRows::create(directory_.get(), path_, kNewRows, capacity_of_series(is_bad_.size()));
  if (!wider) return wider.error();
  for (std::uint32_t level = 0; level < kSummaryLevels; ++level) {
    for (const SummaryRow& row : rows_->read(level)) {  // by number: with fewer slots the newest stay
      if (Status copied = wider->write(level, row); !copied) return copied;
    }
  }
  if (::renameat(directory_.get(), kNewRows, directory_.get(), kSummaryRows) != 0) {
    return io_error("replace", path_ / kSummaryRows, errno);
  }
  rows_.emplace(std::move(*wider));
  return {};
}

Status SummaryWriter::write_series() {
  if (new_series_.empty()) return {};
  Status written = append_to(series_file_, kSummarySeries, new_series_);
  new_series_.clear();
  return written;
}

Status SummaryWriter::append_to(Fd& file, const char* name, const std::string& bytes) {
  if (!file) {
    Result<Fd> made = open_own_file(directory_.get(), path_ / name, Access::append);
    if (!made) return made.error();
    file = std::move(*made);
  }
  const int error = write_all(file.get(), bytes.data(), bytes.size());
  return error == 0 ? Status() : Status(io_error("write", path_ / name, error));
}

}  // namespace sonde
