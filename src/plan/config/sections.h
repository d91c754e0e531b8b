// The objects of MindSpore's configuration files.
#pragma once

#include <string_view>

namespace sonde {

inline constexpr std::string_view kCommon = "common_dump_settings";
inline constexpr std::string_view kE2e = "e2e_dump_settings";
inline constexpr std::string_view kAsync = "async_dump_settings";  // MindSpore 1.2
inline constexpr std::string_view kDumpSettings = "DumpSettings";  // before 1.2

}  // namespace sonde
