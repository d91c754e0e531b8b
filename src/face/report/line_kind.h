// LineKind: what a line of a text is, for colours. The one who writes the line knows it, so the line begins with a mark.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace sonde {

enum class LineKind : char {
  plain = 0,
  bad = 1,    // a verdict: something is wrong
  good = 2,   // a verdict: nothing is
  doubt = 3,  // not known, or beside the verdict
  here = 4,   // the line of code that is meant, the title of what follows
};

// The text with a mark before its first line. The width leaves it out. Names from a dump have no such marks:
// `printable` escapes them.
std::string marked(LineKind kind, std::string_view text);

// Each line with its kind, without the mark, but with its end.
void for_each_line(std::string_view text, const std::function<void(LineKind, std::string_view line)>& take);
std::string without_marks(std::string_view text);

}  // namespace sonde
