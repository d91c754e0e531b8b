#include "record/capture/recorded_view.h"

#include <array>
#include <cstdint>
#include <span>

namespace sonde {
namespace {

// The dimensions of a channels-last tensor in the order in which they lie in memory: N, (D,) H, W, C.
constexpr std::array<std::size_t, 4> kNhwc = {0, 2, 3, 1};
constexpr std::array<std::size_t, 5> kNdhwc = {0, 2, 3, 4, 1};

}  // namespace

RecordedView::RecordedView(const TensorView& view, const Plan& plan, const DeviceAccess* access) : view_(view) {
  if (plan.sample_mode == 1 && view.elements() > static_cast<std::int64_t>(plan.sample_num)) {
    take_sample(static_cast<std::int64_t>(plan.sample_num), access);
  } else if (!plan.trans_flag) {
    lay_out();
  }
}

// The first elements in C order.
void RecordedView::take_sample(std::int64_t elements, const DeviceAccess* access) {
  is_sample_ = true;
  if (access != nullptr && !view_.is_c_contiguous()) {
    sample_.resize(static_cast<std::size_t>(elements) * info(view_.dtype).item_bytes);
    access->copy_first(view_, static_cast<std::size_t>(elements), sample_.data());
    view_.data = sample_.data();  // the lazy bits of the view hold for the sample too
    view_.device = DeviceType::cpu;
  }
  shape_ = {elements};
  strides_ = {1};
  view_.shape = shape_;
  view_.strides = strides_;
}

void RecordedView::lay_out() {
  const std::size_t rank = view_.shape.size();
  if ((rank != 4 && rank != 5) || view_.is_c_contiguous()) return;
  const std::span<const std::size_t> order =
      rank == 4 ? std::span<const std::size_t>(kNhwc) : std::span<const std::size_t>(kNdhwc);
  for (const std::size_t dimension : order) {
    shape_.push_back(view_.shape[dimension]);
    strides_.push_back(view_.strides[dimension]);
  }
  TensorView as_it_lies = view_;
  as_it_lies.shape = shape_;
  as_it_lies.strides = strides_;
  if (!as_it_lies.is_c_contiguous()) return;
  view_ = as_it_lies;
  format_ = rank == 4 ? Format::nhwc : Format::ndhwc;
}

}  // namespace sonde
