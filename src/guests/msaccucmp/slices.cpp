#include "guests/msaccucmp/slices.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>

#include "plan/config/diagnostics.h"
#include "plan/config/json.h"

namespace sonde::msaccucmp {
namespace {

std::int64_t number(const JsonValue* value) {
  std::int64_t result = 0;
  if (value != nullptr) std::from_chars(value->text.data(), value->text.data() + value->text.size(), result);
  return result;
}

const JsonValue* find(const JsonValue& object, std::string_view key) {
  const JsonMember* found = object.find(key);
  return found == nullptr ? nullptr : &found->value;
}

std::vector<std::vector<std::vector<std::int64_t>>> thread_shapes(const JsonValue* threads) {
  std::vector<std::vector<std::vector<std::int64_t>>> shapes;
  if (threads == nullptr) return shapes;
  for (const JsonValue& thread : threads->items) {
    auto& outputs = shapes.emplace_back();
    for (const JsonValue& output : thread.items) {
      auto& sizes = outputs.emplace_back();
      for (const JsonValue& axis : output.items) {
        sizes.push_back(number(find(axis, "higher")) - number(find(axis, "lower")));
      }
    }
  }
  return shapes;
}

// The first axis that was cut; empty if none was.
std::optional<std::size_t> cut_axis(const std::vector<std::int64_t>& cuts) {
  for (std::size_t axis = 0; axis < cuts.size(); ++axis) {
    if (cuts[axis] != 1) return axis;
  }
  return std::nullopt;
}

std::int64_t product(std::span<const std::int64_t> sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// Joins arrays along `axis`; their other sizes are equal.
Outcome<Array> joined(const std::vector<const Array*>& parts, std::size_t axis) {
  const Array& first = *parts[0];
  Array result{first.dtype, first.shape, nullptr, nullptr};
  if (axis >= first.shape.size()) return Failure{Code::slices_mismatch, "the cut axis is beyond the shape"};
  result.shape[axis] = 0;
  for (const Array* part : parts) {
    std::vector<std::int64_t> expected = first.shape;
    if (part->shape.size() == expected.size()) expected[axis] = part->shape[axis];
    if (part->shape != expected || part->dtype != first.dtype) {
      return Failure{Code::slices_mismatch, "the slices differ in more than the axis that was cut"};
    }
    result.shape[axis] += part->shape[axis];
  }
  const std::size_t item = info(first.dtype).item_bytes;
  const std::span<const std::int64_t> sizes = first.shape;
  const std::int64_t outer = product(sizes.first(axis)), inner = product(sizes.subspan(axis + 1));
  auto bytes = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(result.elements()) * item);
  std::byte* out = bytes->data();
  for (std::int64_t row = 0; row < outer; ++row) {
    for (const Array* part : parts) {
      const std::size_t length = static_cast<std::size_t>(part->shape[axis] * inner) * item;
      if (length > 0) std::memcpy(out, part->data + static_cast<std::size_t>(row) * length, length);
      out += length;
    }
  }
  result.data = bytes->data();
  result.owner = std::move(bytes);
  return result;
}

// Gives the array the shape of its slice, which in automatic mode is in the attribute.
Outcome<Array> slice_array(const DumpOp& op, std::size_t thread, std::size_t output) {
  const DumpTensor& tensor = op.outputs[output];
  if (tensor.problem) return *tensor.problem;
  Array array = tensor.array;
  if (!op.slicing || !op.slicing->is_automatic) return array;
  const auto& shapes = op.slicing->output_shapes;
  if (thread >= shapes.size() || output >= shapes[thread].size()) return array;
  const std::vector<std::int64_t>& shape = shapes[thread][output];
  const bool fits = std::ranges::all_of(shape, [](std::int64_t size) { return size >= 0; });
  if (!fits || product(shape) != array.elements()) {
    return Failure{Code::slices_mismatch, fmt::format("slice {} of output {} has {} elements, its shape {}", thread,
                                                      output, array.elements(), fits ? product(shape) : 0)};
  }
  array.shape = shape;
  return array;
}

Outcome<DumpOp> latest(std::vector<DumpOp> slices, bool lacks_slices) {
  const auto timestamp = [](const DumpOp& op) {
    const std::string name = std::filesystem::path(op.path).filename().string();
    std::size_t at = 0;
    for (int field = 0; field < 4 && at != std::string::npos; ++field) at = name.find('.', at + 1);
    return at == std::string::npos ? "" : name.substr(at + 1, name.find('.', at + 1) - at - 1);
  };
  std::ranges::stable_sort(slices, {}, timestamp);
  DumpOp op = std::move(slices.back());
  op.lacks_slices = lacks_slices;
  return op;
}

}  // namespace

std::optional<Slicing> parse_slicing(std::string_view text) {
  Diagnostics unused;
  const std::optional<JsonValue> root = parse_json(text, unused);
  if (!root || find(*root, "threadMode") == nullptr) return std::nullopt;
  const JsonValue& mode = *find(*root, "threadMode");
  Slicing slicing;
  slicing.is_automatic = mode.boolean || number(&mode) != 0;
  slicing.slices = number(find(*root, "slice_instance_num"));
  if (const JsonValue* cuts = find(*root, "outputCutList"); cuts != nullptr) {
    for (const JsonValue& output : cuts->items) {
      auto& axes = slicing.output_cuts.emplace_back();
      for (const JsonValue& axis : output.items) axes.push_back(number(&axis));
    }
  }
  slicing.output_shapes = thread_shapes(find(*root, "output_tensor_slice"));
  return slicing;
}

Outcome<DumpOp> merge_slices(const OpFiles& files, std::vector<DumpOp> slices) {
  if (slices.size() == 1) return std::move(slices[0]);
  const DumpOp& base = slices[0];
  const bool lacks_slices = !base.slicing || base.slicing->slices != static_cast<std::int64_t>(slices.size());
  const std::vector<std::vector<std::int64_t>> cuts =
      base.slicing ? base.slicing->output_cuts : std::vector<std::vector<std::int64_t>>();
  if (std::ranges::none_of(cuts, [](const auto& axes) { return cut_axis(axes).has_value(); })) {
    return latest(std::move(slices), lacks_slices);
  }
  DumpOp merged;
  merged.name = without_slices(base.name);
  merged.inputs = base.inputs;
  merged.lacks_slices = lacks_slices;
  for (const DumpOp& slice : slices) {
    if (slice.outputs.size() != base.outputs.size()) {
      return Failure{Code::invalid_dump_data, fmt::format("'{}' has {} outputs, '{}' {}", slice.path,
                                                          slice.outputs.size(), base.path, base.outputs.size())};
    }
  }
  for (std::size_t k = 0; k < std::min(cuts.size(), base.outputs.size()); ++k) {
    DumpTensor& tensor = merged.outputs.emplace_back(base.outputs[k]);
    std::vector<Array> arrays;
    for (std::size_t thread = 0; thread < slices.size(); ++thread) {
      Outcome<Array> array = slice_array(slices[thread], thread, k);
      if (!array) return array.failure();
      arrays.push_back(std::move(*array));
    }
    if (const std::optional<std::size_t> axis = cut_axis(cuts[k]); axis) {
      std::vector<const Array*> parts;
      for (const Array& array : arrays) parts.push_back(&array);
      Outcome<Array> whole = joined(parts, *axis);
      if (!whole) return whole.failure();
      tensor.array = std::move(*whole);
    } else {
      tensor.array = arrays[0];
    }
    tensor.shape = tensor.array.shape;
  }
  // The first four fields of the name are the same in all of them.
  const std::filesystem::path& first = files.files[0].path;
  const std::string name = first.filename().string();
  std::size_t end = 0;
  for (int field = 0; field < 4 && end != std::string::npos; ++field) end = name.find('.', end + (field > 0 ? 1 : 0));
  merged.path = (first.parent_path() / (name.substr(0, end) + ".*")).string();
  return merged;
}

}  // namespace sonde::msaccucmp
