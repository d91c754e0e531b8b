#include "plan/config/printable.h"

#include <fmt/format.h>

#include <cstdint>

namespace sonde {
namespace {

std::size_t width_of(char32_t c) {
  const bool combining = (c >= 0x300 && c <= 0x36F) || c == 0x200B || c == 0x200D || c == 0xFE0F;
  if (combining) return 0;
  const bool wide = (c >= 0x1100 && c <= 0x115F) || (c >= 0x2E80 && c <= 0xA4CF) || (c >= 0xAC00 && c <= 0xD7A3) ||
                    (c >= 0xF900 && c <= 0xFAFF) || (c >= 0xFE30 && c <= 0xFE6F) || (c >= 0xFF00 && c <= 0xFF60) ||
                    (c >= 0x1F300 && c <= 0x1FAFF) || (c >= 0x20000 && c <= 0x3FFFD);
  return wide ? 2 : 1;
}

// `\x1b`, `\n`, `\u202e`: an unsafe character, or a byte that is not UTF-8, as C would write it.
std::string escape_of(const Character& character, unsigned char byte) {
  if (!character.is_utf8 || character.code < 0x80) {
    if (byte == '\n') return "\\n";
    if (byte == '\r') return "\\r";
    if (byte == '\t') return "\\t";
    return fmt::format("\\x{:02x}", byte);
  }
  const auto code = static_cast<std::uint32_t>(character.code);
  return code > 0xFFFF ? fmt::format("\\U{:08x}", code) : fmt::format("\\u{:04x}", code);
}

// The first character of `text` goes, as it may be shown, to the end of `out`.
void take_first(std::string_view& text, std::string_view kept, std::string& out) {
  const Character character = first_character(text);
  const bool is_kept = kept.find(text[0]) != std::string_view::npos;
  if (character.is_utf8 && (is_kept || !is_unsafe(character.code))) {
    out.append(text.substr(0, character.bytes));
  } else {
    out.append(escape_of(character, static_cast<unsigned char>(text[0])));
  }
  text.remove_prefix(character.bytes);
}

}  // namespace

bool is_unsafe(char32_t c) {
  return c < 0x20 || (c >= 0x7F && c < 0xA0) || c == 0x61C || c == 0x200E || c == 0x200F ||
         (c >= 0x2028 && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069) || c == 0xFEFF || (c >= 0xFFF9 && c <= 0xFFFB) ||
         (c >= 0xE0000 && c <= 0xE007F);
}

Character first_character(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0x80) return {1, 1, lead, true};
  const std::size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || bytes > text.size()) return {};
  char32_t code = lead & (0x7FU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return {};
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kSmallest[bytes] || code > 0x10FFFF || surrogate) return {};
  return {bytes, width_of(code), code, true};
}

std::string printable(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) take_first(text, kept, out);
  return out;
}

std::string printable(std::string_view text) { return printable(text, std::string_view()); }

std::string printable(std::string_view text, std::size_t most) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= most) return out + "…";
    take_first(text, {}, out);
  }
  return out;
}

}  // namespace sonde
