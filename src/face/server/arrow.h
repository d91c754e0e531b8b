// Arrow: a table as a stream of Apache Arrow's IPC format (version 5), one record batch, no compression.
#pragma once

#include <deque>
#include <string>
#include <string_view>

namespace sonde::server {

struct AnswerColumn;

inline constexpr std::string_view kArrowType = "application/vnd.apache.arrow.stream";

std::string arrow_stream(const std::deque<AnswerColumn>& columns);

}  // namespace sonde::server
