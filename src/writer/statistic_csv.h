// The text of statistic.csv, as each version of MindSpore writes it. RunFiles owns the file itself (run_files.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "journal/record.h"
#include "layout/layout.h"
#include "stats/statistics.h"

namespace sonde {

// The columns that every version has, before those of the categories.
inline constexpr std::string_view kStatisticColumns =
    "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape";

// One line, with its newline: the fixed columns, then one per category in the order given.
std::string statistic_header(std::span<const Category> categories);

// True if statistic.csv has a row of `tensor`.
bool has_statistic_row(const TensorEntry& tensor);

// Appends the row of `tensor`, one of `record`, to `out`, in the form of `layout`. A name with a comma, a quote or a
// newline is quoted, so that every row stays one row.
void append_statistic_row(const Layout& layout, const Record& record, const TensorRecord& tensor,
                          std::span<const Category> categories, bool low_precision, std::string& out);

}  // namespace sonde
