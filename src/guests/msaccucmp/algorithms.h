// The ten algorithms of msaccucmp, with its names, its text and its rules for zeros, NaN and infinities.
//
//   const std::vector<std::string> values = compute({Algorithm::cosine, Algorithm::max_absolute}, operands, remarks);
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ground/stats/pair.h"
#include "sonde/tensor.h"

namespace sonde::msaccucmp {

enum class Algorithm : std::uint8_t {  // by their numbers on the command line
  cosine_similarity = 0,
  max_absolute_error = 1,
  accumulated_relative_error = 2,
  relative_euclidean_distance = 3,
  kullback_leibler_divergence = 4,
  standard_deviation = 5,
  mean_absolute_error = 6,
  root_mean_square_error = 7,
  max_relative_error = 8,
  mean_relative_error = 9,
};
inline constexpr std::size_t kAlgorithms = 10;

std::string_view name_of(Algorithm algorithm);
std::optional<Algorithm> algorithm_from(std::string_view name_or_number);

// Two vectors of equal length. Their dtypes may differ; they are rounded to float32 first.
struct Operands {
  TensorView left, right;
  bool is_scalar = false;  // all sizes of the left shape are 1, or it has none
  // Two bools are also compared as the numbers 0 and 1; otherwise only their cosine similarity is a number.
  bool bools_are_numbers = false;
  std::string_view left_path, right_path;
};

// One text for each algorithm: `%.6f`, "nan" for a NaN that was computed, "NaN" for a value that cannot be computed.
// Reasons and other remarks are added to `remarks`.
std::vector<std::string> compute(std::span<const Algorithm> algorithms, const Operands& operands,
                                 std::vector<std::string>& remarks, const ForEach& for_each = in_order);

// `%.6f` as Python prints it: a NaN has no sign.
std::string fixed(double value, int digits = 6);

}  // namespace sonde::msaccucmp
