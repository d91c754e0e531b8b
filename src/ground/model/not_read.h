// The reasons in a record for what was not read. Analyses know them: such a tensor is not healthy, but unknown.
#pragma once

namespace sonde {

inline constexpr const char* kUninitialised = "uninitialised memory";  // nobody wrote it yet
// Left out by max_overhead:
inline constexpr const char* kNotRead = "not read: max_overhead";
inline constexpr const char* kStatisticsOnly = "statistics only: max_overhead";

}  // namespace sonde
