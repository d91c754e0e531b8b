#include "face/report/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>

namespace sonde {

std::string text_for_terminal(std::string_view text) { return printable(text, "\n\t"); }

std::string json_for_terminal(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  while (!json.empty()) {
    const Character character = first_character(json);
    if (json[0] == '\n' || !is_unsafe(character.code)) {
      out.append(json.substr(0, character.bytes));
    } else if (character.code > 0xFFFF) {
      const auto rest = static_cast<std::uint32_t>(character.code - 0x10000);
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xD800 + (rest >> 10), 0xDC00 + (rest & 0x3FF));
    } else {
      out += fmt::format("\\u{:04x}", static_cast<std::uint32_t>(character.code));
    }
    json.remove_prefix(character.bytes);
  }
  return out;
}

namespace {

// The place after which `text` is cut, at most `most`: the end of a clause in its second half, of a phrase, or a space.
std::size_t end_of_clause(std::string_view text, std::size_t most) {
  for (const std::string_view end : {"; ", " (", ", ", " "}) {
    std::size_t at = text.rfind(end, most - 1);
    while (end == ", " && at != std::string_view::npos && text.substr(at + 2).starts_with("golden ")) {
      at = at == 0 ? std::string_view::npos : text.rfind(end, at - 1);
    }
    if (at != std::string_view::npos && at >= most / 2) return end == " (" || end == " " ? at : at + 1;
  }
  return std::min(text.find(' ', most), text.size());
}

}  // namespace

std::vector<std::string> clauses(std::string_view text, std::size_t first, std::size_t more) {
  std::vector<std::string> parts;
  while (text.size() > (parts.empty() ? first : more)) {
    const std::size_t end = end_of_clause(text, parts.empty() ? first : more);
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  if (!text.empty()) parts.emplace_back(text);
  return parts;
}

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Character character = first_character(text);
    width += character.width;
    text.remove_prefix(character.bytes);
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t width) {
  const std::size_t full = display_width(text);
  if (full <= width) return std::string(text);
  if (width == 0) return {};
  // The end of a name is more specific than its beginning.
  const std::size_t head = (width - 1) / 3;
  const std::size_t skip_to = full - (width - 1 - head);
  std::string out;
  std::size_t at = 0;
  bool cut = false;
  while (!text.empty()) {
    const Character character = first_character(text);
    if (at + character.width <= head || at >= skip_to) {
      out.append(text.substr(0, character.bytes));
    } else if (!cut) {
      out.append("…");
      cut = true;
    }
    at += character.width;
    text.remove_prefix(character.bytes);
  }
  return out;
}

std::string csv_cell(const std::string& raw) {
  const std::string text = printable(raw);
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string bytes_text(std::uint64_t bytes) {
  if (bytes < 1000) return fmt::format("{} B", bytes);
  constexpr const char* kUnits[] = {"kB", "MB", "GB", "TB", "PB", "EB"};
  auto value = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  for (; value >= 999.95 && unit < 5; ++unit) value /= 1000;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string time_text(std::uint64_t timestamp_us) {
  if (timestamp_us == 0) return "-";
  const auto seconds = static_cast<std::time_t>(timestamp_us / 1'000'000);
  std::tm parts{};
  char text[32];
  if (localtime_r(&seconds, &parts) == nullptr) return "-";
  return {text, std::strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S", &parts)};
}

std::string duration_text(std::uint64_t us) {
  const double seconds = static_cast<double>(us) / 1e6;
  if (seconds < 0.1) return fmt::format("{:.3g} ms", seconds * 1e3);
  if (seconds < 120) return fmt::format("{:.3g} s", seconds);
  return fmt::format("{} min {:.0f} s", static_cast<std::uint64_t>(seconds / 60),
                     seconds - 60 * static_cast<double>(static_cast<std::uint64_t>(seconds / 60)));
}

std::string percent_encoded(std::string_view text, std::string_view readable) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-_.!~*'()").find(c) != std::string_view::npos ||
                          readable.find(c) != std::string_view::npos;
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

std::string joined(const std::vector<std::string>& texts, std::string_view between) {
  return fmt::format("{}", fmt::join(texts, between));
}

std::size_t terminal_width(int file) {
  if (const char* columns = std::getenv("COLUMNS")) {
    const long width = std::strtol(columns, nullptr, 10);
    if (width > 0) return static_cast<std::size_t>(width);
  }
  winsize size{};
  if (ioctl(file, TIOCGWINSZ, &size) != 0) return 0;
  return size.ws_col;
}

}  // namespace sonde
