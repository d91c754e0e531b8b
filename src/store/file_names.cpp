#include "store/file_names.h"

#include <charconv>

namespace sonde {
namespace {

template <typename Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() && text.front() != '-';
}

bool parse_side(std::string_view text, bool& is_input) {
  is_input = text == "input";
  return is_input || text == "output";
}

// Takes the part after the last `separator` off `rest`; all of it when there is none.
std::string_view take_last(std::string_view& rest, char separator) {
  const std::size_t at = rest.rfind(separator);
  const std::string_view part = at == std::string_view::npos ? rest : rest.substr(at + 1);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(0, at);
  return part;
}

// "{op_type}.{op_name}.{task}.{stream}.{time}.{side}.{slot}.{format}[.{dtype}]"; op_name may hold dots (2.0).
bool parse_npy_name(std::string_view rest, TensorFileName& out) {
  const std::string_view last = take_last(rest, '.');
  std::string_view before = take_last(rest, '.');
  if (parse_number(before, out.slot)) {
    out.format = last;
  } else {
    out.dtype = last;
    out.format = before;
    before = take_last(rest, '.');
    if (!parse_number(before, out.slot)) return false;
  }
  if (!parse_side(take_last(rest, '.'), out.is_input)) return false;
  if (!parse_number(take_last(rest, '.'), out.timestamp_us)) return false;
  if (!parse_number(take_last(rest, '.'), out.stream_id)) return false;
  if (!parse_number(take_last(rest, '.'), out.task_id)) return false;
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos || dot == 0 || out.format.empty()) return false;
  out.op_type = rest.substr(0, dot);
  out.op_name = rest.substr(dot + 1);
  return !out.op_name.empty();
}

// "{name}_{side}_{slot}_shape_{d0}_{d1}…_{Type}_{format}", 1.2; a scalar has `shape_0`.
bool parse_bin_name(std::string_view rest, TensorFileName& out) {
  constexpr std::string_view kShape = "_shape_";
  const std::size_t at = rest.rfind(kShape);
  if (at == std::string_view::npos) return false;
  std::string_view tail = rest.substr(at + kShape.size());
  rest = rest.substr(0, at);
  // A format may hold `_` (FRACTAL_Z), so the sizes are read from the left.
  std::int64_t size = 0;
  while (true) {
    const std::size_t end = tail.find('_');
    if (end == std::string_view::npos || !parse_number(tail.substr(0, end), size)) break;
    out.shape.push_back(size);
    tail = tail.substr(end + 1);
  }
  const std::size_t end = tail.find('_');
  if (out.shape.empty() || end == std::string_view::npos) return false;
  if (out.shape.size() == 1 && out.shape[0] == 0) out.shape.clear();
  out.dtype = tail.substr(0, end);
  out.format = tail.substr(end + 1);
  // What Sonde puts behind a name that is taken.
  std::uint32_t number = 0;
  const std::size_t dot = out.format.rfind('.');
  if (dot != std::string::npos && parse_number(std::string_view(out.format).substr(dot + 1), number)) {
    out.format.resize(dot);
  }
  if (!parse_number(take_last(rest, '_'), out.slot)) return false;
  if (!parse_side(take_last(rest, '_'), out.is_input)) return false;
  out.op_name = rest;
  const std::size_t scope = rest.rfind("--");
  const std::string_view last = scope == std::string_view::npos ? rest : rest.substr(scope + 2);
  const std::size_t op = last.rfind("-op");
  out.op_type = op == std::string_view::npos ? "Parameter" : last.substr(0, op);
  return !out.op_name.empty();
}

// The fields of "a.b.1", all that there are.
std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t dot = text.find('.');
    fields.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return fields;
    text.remove_prefix(dot + 1);
  }
}

constexpr std::size_t kShortestTime = 13;  // digits: microseconds since 1970 have 16, and libfoo.so.1.2.3 is no dump

}  // namespace

std::string sanitised(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c == '/' || c == '\\' || c == '.' || c == ' ') c = '_';
  }
  return out;
}

bool parse_tensor_file_name(std::string_view name, TensorFileName& out) {
  out = TensorFileName();
  if (name.ends_with(".npy")) return parse_npy_name(name.substr(0, name.size() - 4), out);
  if (name.ends_with(".bin")) return parse_bin_name(name.substr(0, name.size() - 4), out);
  return false;
}

bool parse_op_file_name(std::string_view name, OpFileName& out) {
  out = OpFileName();
  out.is_table = name.ends_with(".csv");
  if (out.is_table) name.remove_suffix(4);
  std::vector<std::string_view> fields = split(name);
  // FFTS+: task_type.context_id.thread_id.device_id after the time.
  if (fields.size() == 9 || fields.size() == 10) {
    const std::size_t first = fields.size() - 4;
    std::uint64_t ignored = 0;
    for (std::size_t i = first; i < fields.size(); ++i) {
      if (!parse_number(fields[i], ignored) && (i != first || fields[i] != "FFTSPLUS")) return false;
    }
    fields.resize(first);
  }
  if (fields.size() < 4 || fields.size() > 6 || fields[0].empty() || fields[1].empty()) return false;
  if (fields.size() == 6) fields.erase(fields.begin() + 2);  // the number of a dump of an ACL graph
  const bool has_stream = fields.size() == 5;
  if (!parse_number(fields[2], out.task_id)) return false;
  if (has_stream && !parse_number(fields[3], out.stream_id)) return false;
  if (fields.back().size() < kShortestTime || !parse_number(fields.back(), out.timestamp_us)) return false;
  out.op_type = fields[0];
  out.op_name = fields[1];
  return true;
}

}  // namespace sonde
