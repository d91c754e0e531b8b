#include "device_numbers.h"

#include <ATen/Functions.h>
#include <ATen/ops/isnan.h>

#include <limits>

namespace sonde_torch {
namespace {

// The columns of a row.
enum Column {
  kNan,
  kPositiveInf,
  kNegativeInf,
  kPositive,
  kNegative,
  kZero,
  kNegativeZero,
  kSum,
  kSquares,
  kMax,
  kMin,
  kColumns
};

template <typename Number>
void add_rows_as(const std::byte* data, std::int64_t bytes, sonde_device_result& to) {
  to.max = -std::numeric_limits<double>::infinity();
  to.min = std::numeric_limits<double>::infinity();
  std::uint64_t negative_zeros = 0;
  for (const std::byte* row = data; row < data + bytes; row += kColumns * sizeof(Number)) {
    const auto number = [&](Column column) {
      return static_cast<double>(reinterpret_cast<const Number*>(row)[column]);
    };
    const auto counted = [&](Column column) { return static_cast<std::uint64_t>(number(column)); };
    to.nan_count += counted(kNan);
    to.positive_inf_count += counted(kPositiveInf);
    to.negative_inf_count += counted(kNegativeInf);
    to.positive_count += counted(kPositive);
    to.negative_count += counted(kNegative);
    to.zero_count += counted(kZero);
    negative_zeros += counted(kNegativeZero);
    to.sum += number(kSum);
    to.sum_squares += number(kSquares);
    to.max = std::max(to.max, number(kMax));
    to.min = std::min(to.min, number(kMin));
  }
  if (to.max < to.min) {  // nothing is finite: as on the CPU
    to.max = to.min = 0;
    return;
  }
  // -0 comes before +0 on the CPU; for reductions they are equal.
  if (to.max == 0) to.max = to.zero_count > negative_zeros ? 0.0 : -0.0;
  if (to.min == 0) to.min = negative_zeros > 0 ? -0.0 : 0.0;
}

}  // namespace

at::Tensor numbers_of(const at::Tensor& values) {
  constexpr double kInf = std::numeric_limits<double>::infinity();
  const at::Tensor zero = values.eq(0);
  const at::Tensor masks = at::stack({at::isnan(values), values.eq(kInf), values.eq(-kInf), values.gt(0), values.lt(0),
                                      zero, zero.logical_and(at::signbit(values))});
  const at::Tensor counts = masks.sum({2}, false, values.scalar_type());
  const at::Tensor finite = at::nan_to_num(values, 0, 0, 0);
  const at::Tensor numbers =
      at::stack({finite.sum(1), finite.square().sum(1), at::nan_to_num(values, -kInf, -kInf, -kInf).amax(1),
                 at::nan_to_num(values, kInf, kInf, kInf).amin(1)});
  return at::cat({counts, numbers}).t();
}

at::Tensor numbers_of_piece(const at::Tensor& piece) {
  return numbers_of(piece.to(number_type(piece.device())).reshape({1, -1}));
}

void add_rows(const std::byte* rows, std::int64_t bytes, at::ScalarType type, sonde_device_result& to) {
  if (type == at::kFloat) {
    add_rows_as<float>(rows, bytes, to);
  } else {
    add_rows_as<double>(rows, bytes, to);
  }
}

at::Tensor flat_in_memory(const at::Tensor& tensor) {
  if (!tensor.is_non_overlapping_and_dense()) return tensor;
  return tensor.as_strided({tensor.numel()}, {1});
}

}  // namespace sonde_torch
