// Statistics of one tensor: the results of one pass over its bytes, and the columns of statistic.csv derived from them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "sonde/tensor.h"

namespace sonde {

// The elements of a tensor that are not finite.
struct NonFiniteCounts {
  std::uint64_t nan = 0, positive_inf = 0, negative_inf = 0;

  std::uint64_t infinities() const { return positive_inf + negative_inf; }
  std::uint64_t all() const { return nan + infinities(); }
  // One that is not finite.
  void count(double value) { ++(value != value ? nan : value > 0 ? positive_inf : negative_inf); }
  NonFiniteCounts& operator+=(const NonFiniteCounts& other) {
    nan += other.nan;
    positive_inf += other.positive_inf;
    negative_inf += other.negative_inf;
    return *this;
  }
  friend bool operator==(const NonFiniteCounts&, const NonFiniteCounts&) = default;
};

// Raw moments and counts; every element is widened to double. Exact definitions: docs/format.md, "Statistics".
// Bit-identical for every kernel and thread count, because a fixed tree of lanes defines the order of additions.
struct Statistics {
  std::uint64_t count = 0;  // elements
  std::uint64_t nan_count = 0;
  std::uint64_t positive_inf_count = 0;
  std::uint64_t negative_inf_count = 0;
  std::uint64_t positive_count = 0;  // > 0, +inf included
  std::uint64_t negative_count = 0;  // < 0, -inf included
  std::uint64_t zero_count = 0;      // == 0, either sign
  double max = 0;                    // over finite elements; meaningless when finite_count() == 0
  double min = 0;
  double sum = 0;  // of finite elements
  double sum_squares = 0;
  bool first_is_nan = false;  // only set for sonde_settings.acl_quirks: CANN's maximum then is NaN

  std::uint64_t finite_count() const { return count - nan_count - positive_inf_count - negative_inf_count; }
  bool all_finite() const { return finite_count() == count; }
  friend bool operator==(const Statistics&, const Statistics&) = default;
};

// Calls visit(count…) for each kind of element, with the count of each of `statistics`, in the order of the journal.
// They may have several types: those of known_statistics.h and of sonde.h have members of the same names.
template <typename Visit, typename... Kinds>
void for_each_non_finite_count(Visit&& visit, Kinds&... statistics) {
  visit(statistics.nan_count...);
  visit(statistics.positive_inf_count...);
  visit(statistics.negative_inf_count...);
}
template <typename Visit, typename... Kinds>
void for_each_count(Visit&& visit, Kinds&... statistics) {
  for_each_non_finite_count(visit, statistics...);
  visit(statistics.positive_count...);
  visit(statistics.negative_count...);
  visit(statistics.zero_count...);
}

// One pass over the elements in memory order (WalkOrder::memory), without a copy. Not for complex (check
// info(dtype).has_statistics).
Statistics summarize(const TensorView& view);

// The same; also copies the bytes in C order to `out` (view.bytes() bytes) while they are in cache.
Statistics summarize_and_copy(const TensorView& view, std::byte* out);

// The statistics of the negated elements.
Statistics negated(Statistics of);

// The thirteen categories of `statistic_category`, MindSpore 2.4 and later.
enum class Category : std::uint8_t {
  max,
  min,
  avg,
  count,
  negative_zero_count,
  positive_zero_count,
  nan_count,
  negative_inf_count,
  positive_inf_count,
  zero_count,
  md5,
  l2norm,
  sha1,
};
inline constexpr std::size_t kCategories = 13;

struct CategoryInfo {
  Category category;
  std::string_view column;                  // as in statistic.csv: `Max Value`
  std::span<const std::string_view> words;  // as in the JSON: {"md5", "hash:md5"}
  bool on_device;                           // legal with stat_calc_mode "device"
};
std::span<const CategoryInfo, kCategories> all_categories();
std::optional<Category> category_from_word(std::string_view word);
// The category with this word, or whose column has this name, in letters of any case.
std::optional<Category> category_from_title(std::string_view title);

// 32 or 40 lower-case hex digits over the C-order bytes of `view`, original dtype. SHA-1 above 20480 elements is the
// hash of the hex texts of slices (mindspore-dump 2.7).
std::string md5_hex(const TensorView& view);
std::string sha1_hex(const TensorView& view);

// The treatment of NaN and infinities.
enum class NonFinite : std::uint8_t {
  spread,    // MindSpore 2.3 and later: NaN spreads to max, min and avg; infinities take part everywhere
  left_out,  // MindSpore 2.0: max, min and avg over the finite elements; an infinity is neither positive nor negative
};

// As `%g`; the sign of a NaN has no meaning.
std::string number_text(double value);
// The value of a category. Not for md5/sha1. NaN if there is none.
double value_of(const Statistics& statistics, Category category, NonFinite rule = NonFinite::spread);
// Its text: "%g" for values, plain integers for counts, `nan` without a sign; `null` for a value over no elements.
std::string text_of(const Statistics& statistics, Category category, NonFinite rule = NonFinite::spread);
// The same if averages and norms are computed in the tensor's own type (device_stat_precision_mode "low"): rounded to
// it, infinite if they do not fit. Not for integers.
std::string text_in_type(const Statistics& statistics, Category category, DType dtype,
                         NonFinite rule = NonFinite::spread);

// The SIMD kernel in use (`avx3`, `avx2`, …, `scalar`). SONDE_KERNEL=scalar in the environment forces one.
std::string_view kernel_name();
// The problem with SONDE_KERNEL; empty if it is not set or names a kernel that runs here.
std::string kernel_complaint();

}  // namespace sonde
