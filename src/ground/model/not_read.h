// The reasons in a record for what max_overhead left out. Analyses know them: such a tensor is not healthy, but unknown.
#pragma once

namespace sonde {

inline constexpr const char* kNotRead = "not read: max_overhead";
inline constexpr const char* kStatisticsOnly = "statistics only: max_overhead";

}  // namespace sonde
