#include "colour.h"

#include <unistd.h>

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

std::string_view colour_of(LineKind kind) {
  switch (kind) {
    case LineKind::bad:
      return "\033[1;31m";
    case LineKind::good:
      return "\033[1;32m";
    case LineKind::doubt:
      return "\033[1;33m";
    case LineKind::here:
      return "\033[1m";
    case LineKind::plain:
      break;
  }
  return "";
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

std::string painted(std::string_view text, const std::function<std::string(std::string_view line)>& shown) {
  const bool has_any = has_colours();
  std::string out;
  for_each_line(text, [&](LineKind kind, std::string_view line) {
    const std::string_view colour = has_any ? colour_of(kind) : "";
    const bool has_end = line.ends_with('\n');
    out.append(colour).append(shown(line.substr(0, line.size() - (has_end ? 1 : 0))));
    if (!colour.empty()) out.append(kReset);
    if (has_end) out.push_back('\n');
  });
  return out;
}

}  // namespace sonde
