// SourceLine: a place in the user's program.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sonde {

// Lines count from 1, columns (bytes) from 0; the place reaches to `end_column` of `end_line`, exclusive. A line or an end
// of 0: unknown.
struct SourceLine {
  std::string file;  // as the interpreter names it
  std::string function;
  std::uint32_t line = 0, column = 0, end_line = 0, end_column = 0;
  friend bool operator==(const SourceLine&, const SourceLine&) = default;
};

// By where Python keeps what is installed, and its own modules.
inline bool is_of_a_library(std::string_view file) {
  for (const std::string_view part : {"/site-packages/", "/dist-packages/", "/lib/python", "<frozen"}) {
    if (file.find(part) != std::string_view::npos) return true;
  }
  return false;
}

}  // namespace sonde
