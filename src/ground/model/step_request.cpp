#include "ground/model/step_request.h"

#include <algorithm>
#include <array>

namespace sonde {
namespace {

// `-` and these letters, `most` of them, or any number of them if it is 0.
bool is_suffix(std::string_view text, std::string_view letters, std::size_t most) {
  if (text.size() < 2 || text[0] != '-' || (most != 0 && text.size() != most + 1)) return false;
  return text.find_first_not_of(letters, 1) == std::string_view::npos;
}

}  // namespace

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

bool is_meant(std::string_view request, std::string_view asked) {
  constexpr std::array<std::string_view, 4> kEndpoints = {"", "cmpl-", "chatcmpl-", "embd-"};
  constexpr std::size_t kRandom = 8;  // hexadecimal digits
  if (request == asked) return true;
  if (asked.empty() || request.size() <= kRandom) return false;
  const std::size_t end = request.size() - kRandom - 1;
  if (!is_suffix(request.substr(end), "0123456789abcdef", kRandom)) return false;
  const std::string_view name = request.substr(0, end);
  return std::ranges::any_of(kEndpoints, [&](std::string_view endpoint) {
    if (!name.starts_with(endpoint) || !name.substr(endpoint.size()).starts_with(asked)) return false;
    const std::string_view rest = name.substr(endpoint.size() + asked.size());
    return rest.empty() || is_suffix(rest, "0123456789", 0);  // of one of several prompts
  });
}

}  // namespace sonde
