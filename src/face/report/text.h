// Text for people: sizes, times, names cut to a width. All widths count columns of a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ground/base/text.h"
#include "plan/config/printable.h"

namespace sonde {

// `printable` for a whole text, which keeps its line ends and tabs.
std::string text_for_terminal(std::string_view text);
// The same for JSON, where such characters occur only in strings: they become JSON's own escapes.
std::string json_for_terminal(std::string_view json);

// Cut where a clause ends, else at a space: the first part has at most `first` bytes, the others `more`, unless a word is
// longer.
std::vector<std::string> clauses(std::string_view text, std::size_t first, std::size_t more);

std::size_t display_width(std::string_view text);
// At most `width` columns, the middle replaced by `…`.
std::string shortened(std::string_view text, std::size_t width);

// A cell of a CSV table, with quotes if it needs them. Names from a dump are made printable, because a spreadsheet also
// interprets them.
std::string csv_cell(const std::string& raw);

std::string bytes_text(std::uint64_t bytes);        // "1.2 MB", powers of 1000
std::string time_text(std::uint64_t timestamp_us);  // "2025-11-21 10:03:33", local time; "-" for 0
std::string duration_text(std::uint64_t us);        // "3.25 s"
// Letters, digits, the marks that every address may contain and those of `readable` stay; other bytes become %2F.
std::string percent_encoded(std::string_view text, std::string_view readable = {});
std::string joined(const std::vector<std::string>& texts, std::string_view between);

// Columns of the terminal on stdout; 0 if stdout is not a terminal. COLUMNS has priority.
std::size_t terminal_width(int file = 1);

}  // namespace sonde
