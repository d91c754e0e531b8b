#include "read/measure/slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "ground/base/parse_number.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

struct AxisPart {
  bool is_number = false;
  std::optional<std::int64_t> from, to;
  std::int64_t by = 1;
};

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t number = 0;
  return parse_number(text, number) ? std::optional(number) : std::nullopt;
}

// Empty if it cannot be read.
std::optional<AxisPart> part_of(std::string_view text) {
  AxisPart part;
  part.is_number = text.find(':') == std::string_view::npos;
  for (int field = 0; field < 3; ++field) {
    const std::string_view word = trimmed(text.substr(0, text.find(':')));
    if (!word.empty()) {
      const std::optional<std::int64_t> number = whole_number(word);
      if (!number || (field == 2 && *number <= 0)) return std::nullopt;
      if (field == 0) part.from = number;
      if (field == 1) part.to = number;
      if (field == 2) part.by = *number;
    } else if (part.is_number) {
      return std::nullopt;
    }
    const std::size_t colon = text.find(':');
    if (colon == std::string_view::npos) return part;
    text.remove_prefix(colon + 1);
  }
  return std::nullopt;
}

}  // namespace

std::int64_t Slice::elements() const {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) product *= size;
  return product;
}

std::int64_t Slice::place_of(std::int64_t flat) const {
  std::int64_t place = offset;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    place += flat % shape[axis] * strides[axis];
    flat /= shape[axis];
  }
  return place;
}

TensorView Slice::view() const {
  TensorView view = whole;
  if (elements() > 0) view.data += offset * info(whole.dtype).item_bytes;
  view.shape = shape;
  view.strides = strides;
  return view;
}

Result<Slice> slice_of(const TensorView& view, std::string_view text) {
  Slice slice;
  slice.whole = view;
  const std::string given(text);
  const auto wrong = [&](std::string_view why) {
    return Error{ErrorCode::invalid_argument, fmt::format("slice '{}': {}", given, why)};
  };
  text = trimmed(text);
  if (text.starts_with('[') != text.ends_with(']') || text == "[") return wrong("a bracket is missing");
  if (text.starts_with('[')) text = trimmed(text.substr(1, text.size() - 2));
  std::size_t axis = 0;
  for (const std::string_view word : split(text, ',')) {
    if (axis >= view.shape.size()) {
      return wrong(fmt::format("it has more axes than the tensor, which has {}", view.shape.size()));
    }
    const std::optional<AxisPart> part = part_of(word);
    if (!part) {
      return wrong(fmt::format("axis {}: expected a number or a range such as 1:10, not '{}'", axis, trimmed(word)));
    }
    const std::int64_t size = view.shape[axis], stride = view.strides[axis];
    const auto counted = [size](std::int64_t number) { return number < 0 ? number + size : number; };
    if (part->is_number) {
      const std::int64_t index = counted(*part->from);
      if (index < 0 || index >= size) {
        return wrong(fmt::format("axis {}: {} is outside, it has {}", axis, *part->from,
                                 count_text(static_cast<std::uint64_t>(size), "element")));
      }
      slice.offset += index * stride;
    } else {
      const std::int64_t from = std::clamp(counted(part->from.value_or(0)), std::int64_t{0}, size);
      const std::int64_t to = std::clamp(counted(part->to.value_or(size)), from, size);
      slice.offset += from < size ? from * stride : 0;
      slice.shape.push_back(part->by > to - from ? (to > from ? 1 : 0) : (to - from + part->by - 1) / part->by);
      slice.strides.push_back(slice.shape.back() > 1 ? stride * part->by : stride);
    }
    ++axis;
  }
  for (; axis < view.shape.size(); ++axis) {
    slice.shape.push_back(view.shape[axis]);
    slice.strides.push_back(view.strides[axis]);
  }
  return slice;
}

}  // namespace sonde
