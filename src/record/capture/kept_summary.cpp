#include "record/capture/kept_summary.h"

#include <fmt/format.h>

#include <algorithm>
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
  if (!writer_) begin_writing();
  names_new_ = true;
  return writer_->series(std::move(series)).value_or(kNoSeries);
}

void KeptSummary::begin_writing() {
  writer_.emplace(plan_.path, fmt::format("rank_{}", rank_), plan_.sonde.max_overhead > 0);
}

// Settles the account of the step that is over. One that met new tensors does not count: it comes once.
bool KeptSummary::may_spend(std::uint64_t nanoseconds) {
  const auto now = std::chrono::steady_clock::now();
  const double spent = static_cast<double>(nanoseconds);
  const double lasted = began_ == std::chrono::steady_clock::time_point()
                            ? 0
                            : static_cast<double>(std::chrono::nanoseconds(now - began_).count());
  began_ = now;
  const bool counts = !std::exchange(names_new_, false);
  if (counts) credit_ += plan_.sonde.max_overhead * std::max(0.0, lasted - spent) - spent;
  // A step with a NaN is followed by one that is read as a whole, whatever it costs.
  return std::exchange(is_bad_, false) || credit_ >= 0 || plan_.sonde.max_overhead == 0;
}

Result<sonde_summary_step> KeptSummary::begin_step(std::uint64_t step, std::uint64_t nanoseconds) {
  const Lock lock(mutex_);
  last_.reset();
  wanted_ = !excluded_ && plan_.iteration.contains(step);
  if (excluded_) return SONDE_SUMMARY_NOTHING;
  if (!writer_) begin_writing();
  if (Status begun = writer_->begin_step(step); !begun) return begun.error();
  const bool may_read_all = may_spend(nanoseconds);
  if (!wanted_) return SONDE_SUMMARY_NOTHING;
  if (!may_read_all) ++steps_of_loss_;
  return may_read_all ? SONDE_SUMMARY_ALL : SONDE_SUMMARY_LOSS_ALONE;
}

Status KeptSummary::add(std::uint32_t series, const HostTensor& tensor) {
  const Lock lock(mutex_);
  last_.reset();
  if (!wanted_ || !writer_) return {};
  if (!can_be_summarized(tensor)) {
    ++not_read_;
    return {};
  }
  const Statistics statistics = summarize(tensor.view);
  last_ = Added{.thread = std::this_thread::get_id(), .series = series, .statistics = statistics};
  return keep(series, statistics);
}

Result<bool> KeptSummary::add_again(std::uint32_t series, std::uint32_t earlier) {
  const Lock lock(mutex_);
  if (!wanted_ || !last_ || last_->series != earlier || last_->thread != std::this_thread::get_id()) return false;
  last_->series = series;
  if (Status kept = keep(series, last_->statistics); !kept) return kept.error();
  return true;
}

Status KeptSummary::keep(std::uint32_t series, const Statistics& statistics) {
  is_bad_ = is_bad_ || !statistics.all_finite();
  return writer_->add(series, statistics);
}

std::string KeptSummary::stop(const std::string& failure) {
  const Lock lock(mutex_);
  const Status closed = writer_ ? writer_->close() : Status();
  const std::string why = !closed ? closed.error().message : failure;
  if (!why.empty()) return "sonde: the summary ended: " + why;
  const std::string unread =
      not_read_ > 0 ? fmt::format("; {} tensors were not read: they are not in host memory, or complex", not_read_)
                    : "";
  if (!writer_ || writer_->steps() == 0) {
    const std::string_view cause =
        excluded_ ? "this device is not in support_device" : "no step of a training with PyTorch ran in it";
    return fmt::format("sonde: nothing was recorded: {}{}", cause, unread);
  }
  const std::string left_out =
      writer_->left_out() ? fmt::format("; of more than {} tensors the others were left out", kMostSummarySeries) : "";
  const std::string limited = steps_of_loss_ > 0
                                  ? fmt::format("; max_overhead {:g} left {} to the loss alone",
                                                plan_.sonde.max_overhead, count_text(steps_of_loss_, "step"))
                                  : "";
  return fmt::format("sonde: kept a summary of {} tensors in {} in {}{}{}{}", writer_->series_count(),
                     count_text(writer_->steps(), "step"), writer_->directory().string(), limited, left_out, unread);
}

}  // namespace sonde
