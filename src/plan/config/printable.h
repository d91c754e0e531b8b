// Makes text from untrusted files safe for a terminal or a table.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace sonde {

// One character at the front of `text`: its bytes, code and width. Bytes that are not UTF-8 count singly.
struct Character {
  std::size_t bytes = 1;
  std::size_t width = 1;
  char32_t code = 0;
  bool is_utf8 = false;
};

Character first_character(std::string_view text);

// Characters that a terminal obeys, or that make one name look like another: controls, direction marks, line ends.
bool is_unsafe(char32_t c);

// Unsafe characters and bytes that are not UTF-8 become `\x1b`, `\n`, `\u202e`: one line that shows its contents. The
// characters of `kept` (ASCII) stay.
std::string printable(std::string_view text, std::string_view kept);
std::string printable(std::string_view text);
// The same, cut to about `most` bytes.
std::string printable(std::string_view text, std::size_t most);

}  // namespace sonde
