// The reasons in a record for what was not read. Analyses know them: such a tensor is not healthy, but unknown.
#pragma once

#include <cstdint>
#include <string_view>

namespace sonde {

inline constexpr const char* kUninitialised = "uninitialised memory";  // nobody wrote it yet
// Left out by max_overhead:
inline constexpr const char* kNotRead = "not read: max_overhead";
inline constexpr const char* kStatisticsOnly = "statistics only: max_overhead";

enum class NotRead : std::uint8_t { nothing, uninitialised, by_overhead, other };  // nothing: it was read

// The text of a record, and the reason that it is.
struct ReasonNotRead : std::string_view {
  NotRead reason = NotRead::nothing;

  ReasonNotRead() = default;
  ReasonNotRead(std::string_view text)
      : std::string_view(text),
        reason(text.empty()              ? NotRead::nothing
               : text == kUninitialised  ? NotRead::uninitialised
               : text == sonde::kNotRead ? NotRead::by_overhead
                                         : NotRead::other) {}
};

}  // namespace sonde
