// Colours of the command's answers: where standard output is a terminal that has them, or as the user wants.
#pragma once

#include <string>
#include <string_view>

namespace sonde {

enum class ColourChoice { automatic, always, never };

// Takes `--color=WHEN` out of the arguments, up to a `--`. Returns what is wrong with it; empty: nothing.
std::string take_colour_choice(int& argc, char** argv);

// The text with its verdict, the marked line of code and "next:" in colour; as it is where there are none (NO_COLOR).
std::string painted(std::string text);

}  // namespace sonde
