// The place of a tensor in the page of `sonde serve`: the part of the address that follows the printed one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sonde/step.h"

namespace sonde {

struct PagePlace {
  bool in_golden = false;  // of two dumps, in the second
  std::string rank;        // "0", or "0 of run7"
  StepId step;
  std::string_view op_name;
  bool is_input = false;
  std::optional<std::uint32_t> slot;  // empty: the op as a whole
};
// "#/op?r=0&g=0&s=2&op=Default/log-op0&t=o0"
std::string page_link(const PagePlace& place);
// The line that `--link` prints.
std::string link_text(const PagePlace& place);

}  // namespace sonde
