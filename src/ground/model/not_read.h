// The reasons in a record for what was not read. Analyses know them: such a tensor is not healthy, but unknown.
#pragma once

#include <cstdint>
#include <string_view>

namespace sonde {

inline constexpr const char* kUninitialised = "uninitialised memory";  // nobody wrote it yet
inline constexpr const char* kOnlyWritten = "only written";            // an argument that receives the result: `out=`
inline constexpr const char* kTrial = "of a trial run";                // the host throws its results away
// A copy that another rank writes ("replicas"); then its number. Statistics and MD5 are here.
inline constexpr std::string_view kReplica = "a copy; its file is that of rank ";
// Left out by max_overhead:
inline constexpr const char* kNotRead = "not read: max_overhead";
inline constexpr const char* kStatisticsOnly = "statistics only: max_overhead";

enum class NotRead : std::uint8_t {
  nothing,  // it was read, also if another rank has the file
  uninitialised,
  only_written,
  trial,
  by_overhead,
  other
};

// The text of a record, and the reason that it is.
struct ReasonNotRead : std::string_view {
  NotRead reason = NotRead::nothing;

  ReasonNotRead() = default;
  ReasonNotRead(std::string_view text)
      : std::string_view(text),
        reason(text.empty()                 ? NotRead::nothing
               : text.starts_with(kReplica) ? NotRead::nothing
               : text == kUninitialised     ? NotRead::uninitialised
               : text == kOnlyWritten       ? NotRead::only_written
               : text == kTrial             ? NotRead::trial
               : text == sonde::kNotRead    ? NotRead::by_overhead
                                            : NotRead::other) {}

  // Nothing depends on such elements: they are not missing, and no finding follows from them.
  bool is_undefined() const {
    return reason == NotRead::uninitialised || reason == NotRead::only_written || reason == NotRead::trial;
  }
};

}  // namespace sonde
