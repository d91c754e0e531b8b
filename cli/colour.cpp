#include "colour.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace sonde {
namespace {

ColourChoice chosen = ColourChoice::automatic;

constexpr std::string_view kOption = "--color=";
constexpr std::string_view kReset = "\033[0m";

bool is_set(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr && text[0] != '\0';
}

bool has_colours() {
  if (chosen != ColourChoice::automatic) return chosen == ColourChoice::always;
  const char* terminal = std::getenv("TERM");
  return !is_set("NO_COLOR") && ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

// By how a line of an answer begins.
std::string_view colour_of(std::string_view line) {
  constexpr std::string_view kRed = "\033[1;31m", kGreen = "\033[1;32m", kYellow = "\033[1;33m", kBold = "\033[1m";
  if (line.starts_with("first bad: ") || line.starts_with("first difference: ")) return kRed;
  if (line.starts_with("nothing wrong") || line.starts_with("no difference")) return kGreen;
  if (line.starts_with("nothing found") || line.starts_with("grew first: ") || line.starts_with("aside: "))
    return kYellow;
  if (line.starts_with("rank ") && line.ends_with("went wrong by itself:")) return kRed;
  return line.starts_with("  > ") || line == "next:" ? kBold : "";
}

}  // namespace

std::string take_colour_choice(int& argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view argument = argv[i];
    if (!argument.starts_with(kOption)) continue;
    const std::string_view when = argument.substr(kOption.size());
    if (when != "auto" && when != "always" && when != "never") return "--color is auto, always or never";
    chosen = when == "always" ? ColourChoice::always : when == "never" ? ColourChoice::never : ColourChoice::automatic;
    for (int next = i--; next < argc; ++next) argv[next] = argv[next + 1];  // the last one is null
    --argc;
  }
  return "";
}

std::string painted(std::string text) {
  if (!has_colours()) return text;
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    const std::string_view colour = colour_of(line);
    out.append(colour).append(line);
    if (!colour.empty()) out.append(kReset);
    if (end < text.size()) out.push_back('\n');
    begin = end + 1;
  }
  return out;
}

}  // namespace sonde
