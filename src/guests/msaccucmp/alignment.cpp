#include "guests/msaccucmp/alignment.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "ground/tensor/format.h"
#include "ground/tensor/reformat.h"

namespace sonde::msaccucmp {
namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::size_t kImageRank = 4, kVolumeRank = 5;

// The conversions of the tool. It refuses all others, and so does Sonde: the rows must be the same.
constexpr std::pair<Format, Format> kPairs[] = {
    {Format::nc1hwc0, Format::nchw},    {Format::nc1hwc0, Format::nhwc},    {Format::nc1hwc0, Format::hwcn},
    {Format::fractal_z, Format::nchw},  {Format::fractal_z, Format::hwcn},  {Format::fractal_nz, Format::nd},
    {Format::fractal_nz, Format::nchw}, {Format::fractal_nz, Format::nhwc}, {Format::ndc1hwc0, Format::ncdhw},
    {Format::ndc1hwc0, Format::nd},     {Format::nchw, Format::nhwc},       {Format::nhwc, Format::nchw},
    {Format::nhwc, Format::hwcn},       {Format::hwcn, Format::nchw},       {Format::hwcn, Format::nhwc},
    {Format::nchw, Format::fractal_z},  {Format::nhwc, Format::fractal_z},  {Format::hwcn, Format::fractal_z}};

bool is_listed(Format from, Format to) { return std::ranges::find(kPairs, std::pair(from, to)) != std::end(kPairs); }

std::string format_name(Format format) {
  const std::string_view name = name_of(format);
  return name.empty() ? fmt::format("format {}", static_cast<int>(format)) : std::string(name);
}

bool is_image(Format format) { return format == Format::nchw || format == Format::nhwc || format == Format::hwcn; }

// A name like NHWC has no meaning for a tensor with another rank.
Format real_format(const DumpTensor& tensor) {
  const auto format = static_cast<Format>(tensor.format);
  return is_image(format) && tensor.shape.size() != kImageRank ? Format::nd : format;
}

std::int64_t elements_of(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

Failure conversion_failed(Format from, Format to, const std::string& why) {
  return {Code::conversion_failed, fmt::format("{} to {}: {}", format_name(from), format_name(to), why)};
}

Array laid_out(const Array& array, const Reformat& plan, unsigned threads) {
  Array result{array.dtype, plan.shape(), array.data, array.owner};
  if (plan.is_reshape()) return result;
  const std::size_t item = info(array.dtype).item_bytes;
  auto bytes = std::make_shared_for_overwrite<std::byte[]>(static_cast<std::size_t>(plan.elements()) * item);
  plan.copy(array.data, bytes.get(), item, threads);
  result.data = bytes.get();
  result.owner = std::move(bytes);
  return result;
}

Array reshaped(const Array& array, const Shape& shape) { return {array.dtype, shape, array.data, array.owner}; }

// --- two NPU dumps ---------------------------------------------------------------------------------------------------

// The format in which a tensor of an NPU is compared; empty: as it is stored.
std::optional<Format> restored_format(const DumpTensor& tensor) {
  const std::size_t rank = tensor.original_shape.size();
  if (rank == kImageRank) return Format::nchw;
  if (rank == 2 || rank == 3) return Format::nd;
  return std::nullopt;
}

// `must_convert`: the other side is stored in another format, so the order of the elements matters.
Array restored(const DumpTensor& tensor, bool must_convert, unsigned threads) {
  const Format from = real_format(tensor);
  const std::optional<Format> to = restored_format(tensor);
  if (!to || from == *to || !is_listed(from, *to)) return tensor.array;
  const StoredShape stored{from, tensor.shape, std::max<std::int64_t>(tensor.groups, 1)};
  std::optional<LogicalShape> real;
  if (is_blocked(from)) {
    std::optional<Format> hint;
    if (tensor.original_format) hint = static_cast<Format>(*tensor.original_format);
    real = find_order(stored, tensor.original_shape, hint);
    if (!real && !must_convert) return tensor.array;
  } else if (!must_convert) {
    return tensor.array;  // no padding to remove
  }
  const Result<Reformat> plan = plan_reformat(stored, *to, real);
  return plan ? laid_out(tensor.array, *plan, threads) : tensor.array;
}

// --- by a rule -------------------------------------------------------------------------------------------------------

// A size of FRACTAL_NZ before its blocks were filled: smaller by at most 15.
bool fills_block(std::int64_t padded, std::int64_t real) { return real <= padded && real > padded - 16; }

bool fits_fractal_nz(const Shape& stored, const Shape& real) {
  const std::size_t rank = stored.size();
  if (rank < 4 || real.size() != rank - 2) return false;
  const auto lead = static_cast<std::ptrdiff_t>(rank - 4);
  return std::equal(stored.begin(), stored.begin() + lead, real.begin()) &&
         fills_block(stored[rank - 3] * stored[rank - 2], real[rank - 4]) &&
         fills_block(stored[rank - 4] * stored[rank - 1], real[rank - 3]);
}

// The shape without padding that a conversion gets, in an order that it knows.
std::optional<LogicalShape> real_shape(Format from, Format to, const StoredShape& stored, const Shape& target) {
  if (from == Format::fractal_z) {
    if (std::optional<LogicalShape> found = find_order(stored, target, to); found) return found;
    return LogicalShape{to, target};
  }
  if (from == Format::fractal_nz) {
    Shape shape = target;
    if (shape.size() == 1) shape.insert(shape.begin(), 1);
    return LogicalShape{Format::nd, shape};
  }
  if (from == Format::ndc1hwc0 && target.size() == kVolumeRank && stored.shape.size() == 6) {
    const Shape& s = stored.shape;  // N D C1 H W C0
    return LogicalShape{Format::ncdhw, {s[0], target[1], s[1], s[3], s[4]}};
  }
  return std::nullopt;
}

struct Conversion {
  Format from, to;
  Shape target;
  std::int64_t groups = 0;
};

// A part of a row in the tool's table of conversions: the order and, for some formats, the size.
Outcome<Array> converted(const Array& array, const Shape& stored_shape, const Conversion& conversion,
                         unsigned threads) {
  const auto& [from, to, target, groups] = conversion;
  const bool is_other_rank = is_image(from) && stored_shape.size() != kImageRank;
  if (from == Format::nd || is_other_rank || from == to) return reshaped(array, stored_shape);
  if (from == Format::fractal_nz) {
    if (to == Format::nd && target.size() > 2 && stored_shape.size() >= 4) {
      const std::span<const std::int64_t> lead = std::span(target).first(target.size() - 2);
      const std::span<const std::int64_t> blocks = std::span(stored_shape).last(4);
      if (array.elements() != elements_of(lead) * elements_of(blocks)) return reshaped(array, stored_shape);
    }
    if (!fits_fractal_nz(stored_shape, target)) {
      return Failure{Code::invalid_fractal_nz,
                     fmt::format("FRACTAL_NZ {} does not hold {}", bracketed(stored_shape), bracketed(target))};
    }
  }
  if (!is_listed(from, to)) {
    return Failure{Code::unsupported_format,
                   fmt::format("no conversion from {} to {}", format_name(from), format_name(to))};
  }
  if (from == Format::ndc1hwc0 && to == Format::ncdhw && target.size() < 2) {
    return conversion_failed(from, to, "the number of channels is not known");
  }
  const StoredShape stored{from, stored_shape, std::max<std::int64_t>(groups, 1)};
  const Format laid = from == Format::ndc1hwc0 ? Format::ncdhw : to;
  const Result<Reformat> plan =
      plan_reformat(stored, from == Format::fractal_nz ? Format::nd : laid, real_shape(from, to, stored, target));
  if (!plan) return conversion_failed(from, to, plan.error().message);
  return laid_out(array, *plan, threads);
}

// Cropped to `sizes`; a result of fewer than four dimensions is extended with ones, as the tool shows it.
Outcome<Array> cropped(const Array& array, const Shape& sizes, unsigned threads) {
  const Result<Reformat> plan = plan_crop(array.shape, sizes);
  if (!plan) return Failure{Code::invalid_shape, plan.error().message};
  if (plan->elements() == array.elements()) return reshaped(array, plan->shape());
  Array result = laid_out(array, *plan, threads);
  if (result.shape.size() < kImageRank) result.shape.resize(kImageRank, 1);
  return result;
}

// Corrects the rule's order if the shape of the golden file shows NCHW instead of NHWC, or the reverse.
void correct_order(GoldenLayout& golden, const Shape& file) {
  const Shape& rule = golden.shape;
  if (rule.size() != kImageRank || file.size() != kImageRank || rule == file) return;
  const Shape as_nchw = {file[0], file[2], file[3], file[1]}, as_nhwc = {file[0], file[3], file[1], file[2]};
  if (golden.format == "NHWC" && rule == as_nchw) {
    golden.format = "NCHW";
  } else if (golden.format == "NCHW" && rule == as_nhwc) {
    golden.format = "NHWC";
  }
}

struct Destinations {
  Format left, right;
};

Destinations destinations(const DumpTensor& left, Format golden, AlignFor purpose) {
  if (purpose == AlignFor::comparison) return {golden, golden};
  if (has_depth(left.format)) return {Format::ncdhw, Format::ncdhw};
  if (static_cast<Format>(left.format) == Format::fractal_z) return {golden, golden};
  return {Format::nchw, Format::nchw};
}

std::optional<Failure> problem_of(const DumpTensor& left, const DumpTensor& right) {
  if (left.problem) return Failure{left.problem->status, "my output: " + left.problem->reason};
  if (right.problem) return Failure{right.problem->status, "ground truth: " + right.problem->reason};
  return std::nullopt;
}

Failure different_sizes(const Array& left, const Array& right) {
  return {Code::invalid_shape, fmt::format("my output has {} elements, the ground truth {}: cannot be compared",
                                           left.elements(), right.elements())};
}

Array flat(const Array& array) { return reshaped(array, {array.elements()}); }

}  // namespace

bool is_scalar(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::uint64_t{0}) == shape.size();
}

std::string bracketed(const Shape& shape) { return fmt::format("[{}]", fmt::join(shape, ",")); }

bool has_depth(std::int32_t format) {
  const auto value = static_cast<Format>(format);
  return value == Format::ndhwc || value == Format::ncdhw || value == Format::dhwcn || value == Format::ndc1hwc0;
}

Outcome<Aligned> align_stored(const DumpTensor& left, const DumpTensor& right, unsigned threads) {
  if (std::optional<Failure> problem = problem_of(left, right); problem) return *problem;
  const bool differ = left.format != right.format;
  Aligned aligned{restored(left, differ, threads), restored(right, differ, threads), left.shape};
  if (aligned.left.elements() != aligned.right.elements()) {
    return Failure{Code::invalid_shape, fmt::format("without padding my output is {}, the ground truth {}",
                                                    bracketed(aligned.left.shape), bracketed(aligned.right.shape))};
  }
  return aligned;
}

Outcome<Aligned> align_by_rule(const DumpTensor& left, const DumpTensor& right, GoldenLayout golden, AlignFor purpose,
                               unsigned threads) {
  if (std::optional<Failure> problem = problem_of(left, right); problem) return *problem;
  const auto left_format = static_cast<Format>(left.format);
  Format golden_format = left_format;
  if (!golden.format.empty()) {
    if (!format_from_name(golden.format)) {
      return Failure{Code::unsupported_format, fmt::format("the rule file says format '{}'", golden.format)};
    }
    correct_order(golden, right.shape);
    golden_format = *format_from_name(golden.format);
  }
  const auto [left_to, right_to] = destinations(left, golden_format, purpose);
  const bool keeps_blocks = left_format != Format::fractal_nz && left_format != Format::ndc1hwc0;
  Aligned aligned{flat(left.array), flat(right.array), {}};
  if (!is_scalar(left.shape) && !(left_to == Format::nd && keeps_blocks)) {
    Outcome<Array> to_left =
        converted(left.array, left.shape, {left_format, left_to, golden.shape, left.groups}, threads);
    if (!to_left) return to_left.failure();
    const std::int64_t groups = left.groups;
    Outcome<Array> to_right =
        converted(right.array, right.shape, {golden_format, right_to, right.shape, groups}, threads);
    if (!to_right) return to_right.failure();
    aligned.left = std::move(*to_left);
    aligned.right = std::move(*to_right);
  }
  const bool differ = aligned.left.elements() != aligned.right.elements();
  if (left_format != Format::nd || (!is_scalar(left.shape) && differ)) {
    Outcome<Array> left_cropped = cropped(aligned.left, aligned.right.shape, threads);
    if (!left_cropped) return left_cropped.failure();
    aligned.left = std::move(*left_cropped);
  }
  if (aligned.left.elements() != aligned.right.elements()) return different_sizes(aligned.left, aligned.right);
  aligned.shape = aligned.left.shape;
  return aligned;
}

Outcome<Aligned> align_as_they_are(const DumpTensor& left, const DumpTensor& right) {
  if (std::optional<Failure> problem = problem_of(left, right); problem) return *problem;
  if (left.shape != right.shape) {
    return Failure{Code::invalid_shape, fmt::format("my output is {}, the ground truth {}: cannot be compared",
                                                    bracketed(left.shape), bracketed(right.shape))};
  }
  return Aligned{left.array, right.array, left.shape};
}

}  // namespace sonde::msaccucmp
