#include "read/catalog/select.h"

#include <fmt/format.h>

#include <vector>

namespace sonde {

bool glob_matches(std::string_view pattern, std::string_view name) {
  // reachable[i]: the first i characters of the name can be matched by the pattern read so far.
  std::vector<char> reachable(name.size() + 1, 0);
  std::vector<char> next(name.size() + 1, 0);
  reachable[0] = 1;
  for (std::size_t p = 0; p < pattern.size(); ++p) {
    const bool star = pattern[p] == '*';
    const bool two = star && p + 1 < pattern.size() && pattern[p + 1] == '*';
    p += two ? 1 : 0;
    next[0] = star ? reachable[0] : 0;
    for (std::size_t i = 0; i < name.size(); ++i) {
      const bool within = name[i] != '/';
      if (star) {
        next[i + 1] = reachable[i + 1] || (next[i] && (two || within));
      } else {
        next[i + 1] = reachable[i] && (pattern[p] == '?' ? within : pattern[p] == name[i]);
      }
    }
    std::swap(reachable, next);
  }
  return reachable[name.size()] != 0;
}

bool selects(std::string_view pattern, std::string_view op_name, std::string_view op_type) {
  if (glob_matches(pattern, op_name) || glob_matches(pattern, op_type)) return true;
  if (pattern.find('/') != std::string_view::npos) return false;
  const std::size_t slash = op_name.rfind('/');
  return slash != std::string_view::npos && glob_matches(pattern, op_name.substr(slash + 1));
}

bool is_step_list(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789-|") == std::string_view::npos;
}

Result<StepSet> parse_step_list(std::string_view what, std::string_view text) {
  if (is_step_list(text)) return StepSet::parse(text);
  return Error{ErrorCode::invalid_argument, fmt::format("{} '{}': expected a list such as 3, 0-5 or 1|4", what, text)};
}

}  // namespace sonde
