// Colours of the command's answers: where standard output is a terminal that has them, or as the user wants.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "face/report/line_kind.h"

namespace sonde {

enum class ColourChoice { automatic, always, never };  // in the order of kColorChoices

// Takes `--color=WHEN` and `--color WHEN` out of the arguments, up to a `--`. Returns what is wrong with it; empty: nothing.
std::string take_colour_choice(int& argc, char** argv);

// The text without the marks of its lines (face/report/line_kind.h), and in their colours where there are any (NO_COLOR).
// `shown`: what is printed of a line.
std::string painted(std::string_view text, const std::function<std::string(std::string_view line)>& shown);

}  // namespace sonde
