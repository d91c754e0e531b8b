#include "ground/model/step_request.h"

namespace sonde {

Attribute attribute_of(const StepRequest& request) {
  return {.name = request.request,
          .kind = AttributeKind::integers,
          .integers = {static_cast<std::int64_t>(request.row), static_cast<std::int64_t>(request.rows),
                       static_cast<std::int64_t>(request.position)},
          .reals = {},
          .text = {}};
}

StepRequest request_of(const Attribute& attribute) {
  const auto number = [&](std::size_t i) {
    return i < attribute.integers.size() ? static_cast<std::uint64_t>(attribute.integers[i]) : 0;
  };
  return {.request = attribute.name, .row = number(0), .rows = number(1), .position = number(2)};
}

}  // namespace sonde
