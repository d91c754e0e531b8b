// RecordedView: a tensor in recorded form: whole, or its first elements (sample_mode), or in memory order (trans_flag).
#pragma once

#include <cstddef>
#include <vector>

#include "ground/stats/device.h"
#include "ground/tensor/format.h"
#include "plan/config/plan.h"
#include "sonde/tensor.h"

namespace sonde {

class RecordedView {
 public:
  // Borrows the memory of `view`, or owns a copy of a scattered sample.
  // `access` is null for a device that only the host can read, which then takes the sample.
  RecordedView(const TensorView& view, const Plan& plan, const DeviceAccess* access);
  RecordedView(const RecordedView&) = delete;
  RecordedView& operator=(const RecordedView&) = delete;

  // True if `plan` changes anything: most plans record every tensor whole, in C order.
  static bool differs(const Plan& plan) { return plan.sample_mode == 1 || !plan.trans_flag; }

  const TensorView& view() const { return view_; }
  Format format() const { return format_; }
  bool is_sample() const { return is_sample_; }

 private:
  void take_sample(std::int64_t elements, const DeviceAccess* access);
  void lay_out();

  TensorView view_;
  Format format_ = Format::default_format;
  bool is_sample_ = false;
  std::vector<std::int64_t> shape_, strides_;
  std::vector<std::byte> sample_;
};

}  // namespace sonde
