#include "plan/config/diagnostics.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sonde {

Diagnostics Diagnostics::of_a_record() {
  Diagnostics diagnostics;
  diagnostics.is_of_a_record_ = true;
  return diagnostics;
}

void Diagnostics::error(std::size_t line, std::string key, std::string message) {
  add(true, line, std::move(key), std::move(message));
}

void Diagnostics::warning(std::size_t line, std::string key, std::string message) {
  add(false, line, std::move(key), std::move(message));
}

void Diagnostics::add(bool is_error, std::size_t line, std::string key, std::string message) {
  has_errors_ = has_errors_ || is_error;
  std::size_t& count = is_error ? errors_ : warnings_;
  if (++count > kMost) return;
  kept_.push_back({is_error, line, std::move(key), std::move(message)});
}

std::vector<Diagnostic> Diagnostics::take() {
  std::stable_sort(kept_.begin(), kept_.end(),
                   [](const Diagnostic& a, const Diagnostic& b) { return a.line < b.line; });
  const std::size_t hidden = (errors_ > kMost ? errors_ - kMost : 0) + (warnings_ > kMost ? warnings_ - kMost : 0);
  if (hidden > 0) {
    kept_.push_back({errors_ > kMost, 0, "", fmt::format("{} more of the same kind are not shown", hidden)});
  }
  std::vector<Diagnostic> result = std::exchange(kept_, {});
  *this = Diagnostics{};
  return result;
}

}  // namespace sonde
