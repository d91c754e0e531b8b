#include "face/report/line_kind.h"

#include <algorithm>
#include <cstddef>

namespace sonde {
namespace {

constexpr char kMark = '\001';

LineKind kind_of_line(std::string_view line) {
  const bool has_mark =
      line.size() > 1 && line[0] == kMark && line[1] > 0 && line[1] <= static_cast<char>(LineKind::here);
  return has_mark ? static_cast<LineKind>(line[1]) : LineKind::plain;
}

}  // namespace

std::string marked(LineKind kind, std::string_view text) {
  return std::string{kMark, static_cast<char>(kind)} + std::string(text);
}

void for_each_line(std::string_view text, const std::function<void(LineKind, std::string_view line)>& take) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    const LineKind kind = kind_of_line(text.substr(0, end));
    take(kind, text.substr(kind == LineKind::plain ? 0 : 2, kind == LineKind::plain ? end : end - 2));
    text.remove_prefix(end);
  }
}

std::string without_marks(std::string_view text) {
  std::string plain;
  for_each_line(text, [&](LineKind, std::string_view line) { plain += line; });
  return plain;
}

}  // namespace sonde
