#include "colour.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "contract/commands.h"

namespace sonde {
namespace {

ColourChoice chosen = ColourChoice::automatic;

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
    std::string_view when = argv[i];
    if (!when.starts_with(kColorFlag)) continue;
    when.remove_prefix(kColorFlag.size());
    int taken = 1;
    if (when.starts_with('=')) {
      when.remove_prefix(1);
    } else if (!when.empty()) {
      continue;  // an option of another name
    } else if (i + 1 < argc) {
      when = argv[i + 1];
      taken = 2;
    }
    const auto* const choice = std::ranges::find(kColorChoices, when);
    if (choice == kColorChoices.end()) {
      return fmt::format("{} is {}; found '{}'", kColorFlag, fmt::join(kColorChoices, ", "), when);
    }
    chosen = static_cast<ColourChoice>(choice - kColorChoices.begin());
    std::copy(argv + i + taken, argv + argc + 1, argv + i);  // the last one is null
    argc -= taken;
    --i;
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
