#include "ask/convert/thread_slices.h"

#include <charconv>
#include <string>

#include "ground/base/json.h"

namespace sonde {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

constexpr std::size_t kLongestAttribute = 16 << 20;

// [tensor][axis] = {"lower": a, "higher": b}
std::optional<Shapes> shapes_of(const Json& root, const char* key, std::size_t thread) {
  const auto slices = root.find(key);
  if (slices == root.end() || !slices->is_array() || thread >= slices->size()) return std::nullopt;
  Shapes shapes;
  for (const Json& tensor : (*slices)[thread]) {
    std::vector<std::int64_t>& shape = shapes.emplace_back();
    for (const Json& axis : tensor) {
      if (!axis.is_object()) return std::nullopt;
      const auto lower = axis.find("lower"), higher = axis.find("higher");
      if (lower == axis.end() || higher == axis.end() || !lower->is_number_integer() || !higher->is_number_integer()) {
        return std::nullopt;
      }
      const auto from = lower->get<std::int64_t>(), to = higher->get<std::int64_t>();
      if (from < 0 || to < from) return std::nullopt;
      shape.push_back(to - from);
    }
  }
  return shapes;
}

bool is_automatic(const Json& root) {
  if (!root.is_object()) return false;
  const auto mode = root.find("threadMode");
  if (mode == root.end()) return false;
  if (mode->is_boolean()) return mode->get<bool>();
  return mode->is_number() && mode->get<double>() != 0;
}

}  // namespace

Result<std::optional<ThreadSlices>> thread_slices(std::string_view attribute, std::optional<std::size_t> thread) {
  if (attribute.size() > kLongestAttribute) return std::optional<ThreadSlices>();
  const Json root = json_of_others(attribute);
  if (!is_automatic(root)) return std::optional<ThreadSlices>();
  if (!thread) {
    return Error{
        ErrorCode::invalid_argument,
        "its attribute says that it is a thread's slice, but its name has no number of a thread before the last "
        "field"};
  }
  std::optional<Shapes> inputs = shapes_of(root, "input_tensor_slice", *thread);
  std::optional<Shapes> outputs = shapes_of(root, "output_tensor_slice", *thread);
  if (!inputs || !outputs) {
    return Error{ErrorCode::corrupt, "its attribute has no slices for thread " + std::to_string(*thread)};
  }
  return std::optional(ThreadSlices{std::move(*inputs), std::move(*outputs)});
}

std::optional<std::size_t> thread_of_name(std::string_view name) {
  const std::size_t last = name.rfind('.');
  if (last == std::string_view::npos || last == 0) return std::nullopt;
  const std::size_t before = name.rfind('.', last - 1);
  if (before == std::string_view::npos) return std::nullopt;
  const std::string_view field = name.substr(before + 1, last - before - 1);
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), number);
  if (field.empty() || error != std::errc() || end != field.data() + field.size()) return std::nullopt;
  return number;
}

}  // namespace sonde
