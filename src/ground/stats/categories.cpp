// The categories of statistic.csv: names, words, and their values from the raw statistics.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "ground/base/text.h"
#include "ground/stats/statistics.h"

namespace sonde {
namespace {

using WordList = std::span<const std::string_view>;

constexpr std::string_view kMax[] = {"max"};
constexpr std::string_view kMin[] = {"min"};
constexpr std::string_view kAvg[] = {"avg"};
constexpr std::string_view kCount[] = {"count"};
constexpr std::string_view kNegative[] = {"negative zero count"};
constexpr std::string_view kPositive[] = {"positive zero count"};
constexpr std::string_view kNan[] = {"nan count"};
constexpr std::string_view kNegativeInf[] = {"negative inf count"};
constexpr std::string_view kPositiveInf[] = {"positive inf count"};
constexpr std::string_view kZero[] = {"zero count"};
constexpr std::string_view kMd5[] = {"md5", "hash:md5"};
constexpr std::string_view kL2Norm[] = {"l2norm"};
constexpr std::string_view kSha1[] = {"hash", "hash:sha1"};

constexpr std::array<CategoryInfo, kCategories> kCategoryTable = {{
    {Category::max, "Max Value", WordList(kMax), true},
    {Category::min, "Min Value", WordList(kMin), true},
    {Category::avg, "Avg Value", WordList(kAvg), true},
    {Category::count, "Count", WordList(kCount), false},
    {Category::negative_zero_count, "Negative Zero Count", WordList(kNegative), false},
    {Category::positive_zero_count, "Positive Zero Count", WordList(kPositive), false},
    {Category::nan_count, "NaN Count", WordList(kNan), false},
    {Category::negative_inf_count, "Negative Inf Count", WordList(kNegativeInf), false},
    {Category::positive_inf_count, "Positive Inf Count", WordList(kPositiveInf), false},
    {Category::zero_count, "Zero Count", WordList(kZero), false},
    {Category::md5, "MD5", WordList(kMd5), false},
    {Category::l2norm, "L2Norm Value", WordList(kL2Norm), true},
    {Category::sha1, "SHA1", WordList(kSha1), false},
}};

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

double max_of(const Statistics& of) {
  if (of.count == 0 || of.nan_count > 0) return kNaN;
  if (of.positive_inf_count > 0) return kInf;
  return of.finite_count() > 0 ? of.max : -kInf;
}

double min_of(const Statistics& of) {
  if (of.count == 0 || of.nan_count > 0) return kNaN;
  if (of.negative_inf_count > 0) return -kInf;
  return of.finite_count() > 0 ? of.min : kInf;
}

double average_of(const Statistics& of) {
  const bool both_infinities = of.positive_inf_count > 0 && of.negative_inf_count > 0;
  if (of.count == 0 || of.nan_count > 0 || both_infinities) return kNaN;
  if (of.positive_inf_count > 0) return kInf;
  if (of.negative_inf_count > 0) return -kInf;
  return of.sum / static_cast<double>(of.count);
}

double l2norm_of(const Statistics& of) {
  if (of.nan_count > 0) return kNaN;
  return of.all_finite() ? std::sqrt(of.sum_squares) : kInf;
}

// `of` without the elements that are not finite; only the counts of these stay.
Statistics finite_part(Statistics of) {
  of.positive_count -= of.positive_inf_count;
  of.negative_count -= of.negative_inf_count;
  of.count = of.finite_count();
  of.nan_count = of.positive_inf_count = of.negative_inf_count = 0;
  return of;
}

bool is_count_of_sign(Category category) {
  return category == Category::positive_zero_count || category == Category::negative_zero_count;
}

// The count of a counting category; empty for the others.
std::optional<std::uint64_t> count_of(const Statistics& of, Category category) {
  switch (category) {
    case Category::count:
      return of.count;
    case Category::negative_zero_count:
      return of.negative_count;
    case Category::positive_zero_count:
      return of.positive_count;
    case Category::nan_count:
      return of.nan_count;
    case Category::negative_inf_count:
      return of.negative_inf_count;
    case Category::positive_inf_count:
      return of.positive_inf_count;
    case Category::zero_count:
      return of.zero_count;
    default:
      return std::nullopt;
  }
}

// To the nearest number of `digits` binary digits, ties to even; `least` is std::frexp's exponent of the least normal one.
double rounded(double value, int digits, int least, double greatest) {
  if (!std::isfinite(value) || value == 0) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const int unit = std::max(exponent, least) - digits;
  const double result = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  return std::abs(result) > greatest ? std::copysign(kInf, value) : result;
}

double in_type(double value, DType dtype) {
  switch (dtype) {
    case DType::float16:
      return rounded(value, 11, -13, 65504);
    case DType::bfloat16:
      return rounded(value, 8, -125, 0x1.FEp127);
    case DType::float32:
      return static_cast<double>(static_cast<float>(value));
    default:
      return value;
  }
}

}  // namespace

Statistics negated(Statistics of) {
  std::swap(of.positive_count, of.negative_count);
  std::swap(of.positive_inf_count, of.negative_inf_count);
  if (of.finite_count() == 0) return of;
  of.max = -std::exchange(of.min, -of.max);
  of.sum = of.sum == 0 ? 0 : -of.sum;
  return of;
}

std::span<const CategoryInfo, kCategories> all_categories() { return kCategoryTable; }

std::optional<Category> category_from_word(std::string_view word) {
  for (const CategoryInfo& row : kCategoryTable) {
    for (const std::string_view known : row.words) {
      if (known == word) return row.category;
    }
  }
  return std::nullopt;
}

std::optional<Category> category_from_title(std::string_view title) {
  if (const std::optional<Category> found = category_from_word(lower_case(title))) return found;
  const auto is_it = [&](const CategoryInfo& row) { return same_ignoring_case(row.column, title); };
  const auto found = std::ranges::find_if(kCategoryTable, is_it);
  return found == kCategoryTable.end() ? std::nullopt : std::optional(found->category);
}

std::string number_text(double value) { return std::isnan(value) ? "nan" : fmt::format("{:g}", value); }

double value_of(const Statistics& statistics, Category category, NonFinite rule) {
  const Statistics of = rule == NonFinite::left_out ? finite_part(statistics) : statistics;
  switch (category) {
    case Category::max:
      return max_of(of);
    case Category::min:
      return min_of(of);
    case Category::avg:
      return average_of(of);
    case Category::l2norm:
      return l2norm_of(of);
    default:
      break;
  }
  const std::optional<std::uint64_t> count = count_of(is_count_of_sign(category) ? of : statistics, category);
  return count ? static_cast<double>(*count) : kNaN;
}

std::string text_of(const Statistics& statistics, Category category, NonFinite rule) {
  const bool leave_out = rule == NonFinite::left_out;
  const Statistics& counted = leave_out && is_count_of_sign(category) ? finite_part(statistics) : statistics;
  if (const std::optional<std::uint64_t> count = count_of(counted, category)) return fmt::format("{}", *count);
  if (category == Category::md5 || category == Category::sha1) return {};
  if (leave_out && statistics.finite_count() == 0) return "null";
  return number_text(value_of(statistics, category, rule));
}

std::string text_in_type(const Statistics& statistics, Category category, DType dtype, NonFinite rule) {
  const bool has_type = category == Category::avg || category == Category::l2norm;
  if (!has_type || (rule == NonFinite::left_out && statistics.finite_count() == 0)) {
    return text_of(statistics, category, rule);
  }
  return number_text(in_type(value_of(statistics, category, rule), dtype));
}

}  // namespace sonde
