#include "record/capture/kept_summary.h"

#include <fmt/format.h>

#include <utility>

#include "ground/base/text.h"
#include "ground/stats/statistics.h"

namespace sonde {
namespace {

bool can_be_summarized(const HostTensor& tensor) {
  return tensor.skip == nullptr && tensor.view.device == DeviceType::cpu && info(tensor.view.dtype).has_statistics &&
         has_countable_bytes(tensor.view);
}

}  // namespace

void KeptSummary::set_place(std::uint32_t rank, std::uint32_t device) {
  const Lock lock(mutex_);
  rank_ = rank;
  excluded_ = !plan_.supports_device(device);
}

std::uint32_t KeptSummary::series(SummarySeries series) {
  const Lock lock(mutex_);
  if (excluded_) return kNoSeries;
  if (!writer_) writer_.emplace(plan_.path, fmt::format("rank_{}", rank_));
  return writer_->series(std::move(series)).value_or(kNoSeries);
}

Result<bool> KeptSummary::begin_step(std::uint64_t step) {
  const Lock lock(mutex_);
  wanted_ = !excluded_ && plan_.iteration.contains(step);
  if (!excluded_ && !writer_) writer_.emplace(plan_.path, fmt::format("rank_{}", rank_));
  if (excluded_) return false;
  if (Status begun = writer_->begin_step(step); !begun) return begun.error();
  return wanted_;
}

Status KeptSummary::add(std::uint32_t series, const HostTensor& tensor) {
  const Lock lock(mutex_);
  if (!wanted_ || !writer_) return {};
  if (!can_be_summarized(tensor)) {
    ++not_read_;
    return {};
  }
  return writer_->add(series, summarize(tensor.view));
}

std::string KeptSummary::stop(const std::string& failure) {
  const Lock lock(mutex_);
  const Status closed = writer_ ? writer_->close() : Status();
  const std::string why = !closed ? closed.error().message : failure;
  if (!why.empty()) return "sonde: the summary ended: " + why;
  const std::string unread =
      not_read_ > 0 ? fmt::format("; {} tensors were not read: they are not in host memory, or complex", not_read_) : "";
  if (!writer_ || writer_->steps() == 0) {
    const std::string_view cause =
        excluded_ ? "this device is not in support_device" : "no step of a training with PyTorch ran in it";
    return fmt::format("sonde: nothing was recorded: {}{}", cause, unread);
  }
  const std::string left_out =
      writer_->left_out() ? fmt::format("; of more than {} tensors the others were left out", kMostSummarySeries) : "";
  return fmt::format("sonde: kept a summary of {} tensors in {} in {}{}{}", writer_->series_count(),
                     count_text(writer_->steps(), "step"), writer_->directory().string(), left_out, unread);
}

}  // namespace sonde
