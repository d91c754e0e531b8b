#include "file_path.h"

#include <charconv>

namespace sonde_mindspore {
namespace {

template <typename Number>
bool parse(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

// Removes the part behind the last `separator` and returns it; repeated separators count as one.
std::string_view take_last(std::string_view& text, char separator) {
  while (!text.empty() && text.back() == separator) text.remove_suffix(1);
  const std::size_t at = text.rfind(separator);
  const std::string_view last = at == std::string_view::npos ? text : text.substr(at + 1);
  text = at == std::string_view::npos ? std::string_view() : text.substr(0, at);
  return last;
}

}  // namespace

bool parse_file_path(std::string_view path, FilePath& out) {
  std::string_view name = take_last(path, '/');
  if (!parse(take_last(path, '/'), out.step) || !parse(take_last(path, '/'), out.graph)) return false;
  take_last(path, '/');  // the net's name
  std::string_view rank = take_last(path, '/');
  constexpr std::string_view kRank = "rank_";
  if (!rank.starts_with(kRank) || !parse(rank.substr(kRank.size()), out.rank)) return false;

  out.op_type = name.substr(0, name.find('.'));
  std::string_view side;
  for (int field = 0; field < 3; ++field) {  // the slot is the last but one or two
    const std::string_view slot = take_last(name, '.');
    if (!parse(slot, out.slot)) continue;
    side = take_last(name, '.');
    break;
  }
  out.is_input = side == "input";
  return !out.op_type.empty() && (out.is_input || side == "output");
}

}  // namespace sonde_mindspore
