// Text for people: sizes, times, names cut to a width. All widths count columns of a terminal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/printable.h"

namespace sonde {

// `printable` for a whole text, whose lines and tabs are ours.
std::string text_for_terminal(std::string_view text);
// The same for JSON, where such characters occur in strings only: another way to write the same document.
std::string json_for_terminal(std::string_view json);

std::size_t display_width(std::string_view text);
// At most `width` columns, the middle replaced by `…`.
std::string shortened(std::string_view text, std::size_t width);

// A cell of a CSV table, in quotes where it needs them. The name of a dump's op is made printable: a spreadsheet is a
// terminal of its own.
std::string csv_cell(const std::string& raw);

std::string bytes_text(std::uint64_t bytes);                         // "1.2 MB", powers of 1000
std::string time_text(std::uint64_t timestamp_us);                   // "2025-11-21 10:03:33", local time; "-" for 0
std::string duration_text(std::uint64_t us);                         // "3.25 s"
std::string count_text(std::uint64_t count, std::string_view noun);  // "1 file", "2 files"
std::string joined(const std::vector<std::string>& texts, std::string_view between);

// Columns of the terminal that stdout is; 0 when it is none (COLUMNS overrides).
std::size_t terminal_width(int file = 1);

}  // namespace sonde
