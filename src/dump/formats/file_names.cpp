#include "dump/formats/file_names.h"

#include <chrono>
#include <span>
#include <utility>

#include "ground/base/parse_number.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

bool parse_side(std::string_view text, bool& is_input) {
  is_input = text == "input";
  return is_input || text == "output";
}

// Removes the part after the last `separator` from `rest` and returns it; returns all of `rest` if there is no
// separator.
std::string_view take_last(std::string_view& rest, char separator) {
  const std::size_t at = rest.rfind(separator);
  const std::string_view part = at == std::string_view::npos ? rest : rest.substr(at + 1);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(0, at);
  return part;
}

using NameFields = std::span<const std::string_view>;

bool is_number(std::string_view text) {
  std::uint64_t ignored = 0;
  return parse_digits(text, ignored);
}

// From the beginning of the first field to the end of the last.
std::string_view join(NameFields fields) {
  if (fields.empty()) return {};
  return {fields.front().data(),
          static_cast<std::size_t>(fields.back().data() + fields.back().size() - fields.front().data())};
}

constexpr std::size_t kShortestTime = 13;  // digits: microseconds since 1970 have 16, and libfoo.so.1.2.3 is not a dump

// FFTS+: task_type.context_id.thread_id.device_id after the time.
bool ends_in_slices(NameFields fields) {
  if (fields.size() < 8) return false;
  const NameFields last = fields.last(4);
  const bool is_kind = is_number(last[0]) || last[0] == "FFTSPLUS";
  return is_kind && is_number(last[1]) && is_number(last[2]) && is_number(last[3]);
}

// Some writers put the name before the type.
bool is_swapped(std::string_view op_type, std::string_view op_name) {
  const auto is_op = [](std::string_view text) {
    const std::size_t at = text.rfind("-op");
    return at != std::string_view::npos && is_number(text.substr(at + 3));
  };
  return is_op(op_type) && !is_op(op_name);
}

// "{op_type}.{op_name}.{task}[.{stream}].{time}", where op_name may hold dots (2.0), a dump number may precede the task
// (ACL graphs), and four fields may follow.
bool parse_op_fields(NameFields fields, TensorFileName& out) {
  if (ends_in_slices(fields) && fields[fields.size() - 5].size() >= kShortestTime)
    fields = fields.first(fields.size() - 4);
  std::size_t numbers = 0;
  while (numbers < fields.size() && is_number(fields[fields.size() - 1 - numbers])) ++numbers;
  if (numbers < 2 || fields.size() < 4 || fields.size() - numbers == 0) return false;
  const bool has_stream = numbers >= 3 && fields.size() >= 5;
  std::size_t names = fields.size() - (has_stream ? 3 : 2);
  parse_digits(fields.back(), out.timestamp_us);
  if (has_stream) parse_digits(fields[names + 1], out.stream_id);
  parse_digits(fields[names], out.task_id);
  if (names == 3 && numbers == 4 && fields[0] != "Parameter") names = 2;  // a dump number
  out.op_type = fields[0];
  out.op_name = join(fields.subspan(1, names - 1));
  if (out.op_type.empty() || out.op_name.empty() || is_number(out.op_name)) return false;
  if (is_swapped(out.op_type, out.op_name)) std::swap(out.op_type, out.op_name);
  return true;
}

// The op, then ".{side}.{slot}[.{format}[.{dtype}]]".
bool parse_npy_name(std::string_view name, TensorFileName& out) {
  const std::vector<std::string_view> fields = fields_in(name, '.');
  for (std::size_t after = 0; after <= 2 && after + 2 < fields.size(); ++after) {
    const std::size_t side = fields.size() - 2 - after;
    if (!parse_side(fields[side], out.is_input) || !parse_digits(fields[side + 1], out.slot)) continue;
    if (after > 0) out.format = fields[side + 2];
    if (after > 1) out.dtype = fields[side + 3];
    if (after > 0 && out.format.empty()) return false;
    return parse_op_fields(NameFields(fields).first(side), out);
  }
  return false;
}

// TorchAir's time in UTC: `YYYYmmddHHMMSS` and six digits of microseconds, more than a 64-bit number holds. Other
// digits: a number.
bool parse_utc_time(std::string_view text, std::uint64_t& timestamp_us) {
  const bool is_time = text.size() == 20 && text.find_first_not_of("0123456789") == text.npos;
  if (!is_time) return parse_digits(text, timestamp_us);
  const auto part = [text](std::size_t begin, std::size_t size) {
    unsigned number = 0;
    parse_digits(text.substr(begin, size), number);
    return number;
  };
  using namespace std::chrono;
  const year_month_day date(year(static_cast<int>(part(0, 4))), month(part(4, 2)), day(part(6, 2)));
  if (!date.ok() || part(8, 2) > 23 || part(10, 2) > 59 || part(12, 2) > 60) return false;
  const auto time = sys_days(date) + hours(part(8, 2)) + minutes(part(10, 2)) + seconds(part(12, 2));
  const auto since_1970 = duration_cast<microseconds>(time.time_since_epoch()) + microseconds(part(14, 6));
  timestamp_us = since_1970.count() > 0 ? static_cast<std::uint64_t>(since_1970.count()) : 0;
  return true;
}

// TorchAir's eager dump: "{node}-{target}.{INPUT|OUTPUT}.{i}[.{j}].{time}"; `j`: of a list.
bool parse_fx_name(std::string_view name, TensorFileName& out) {
  const std::vector<std::string_view> fields = fields_in(name, '.');
  const std::size_t n = fields.size();
  if (n < 4 || !parse_utc_time(fields[n - 1], out.timestamp_us) || !is_number(fields[n - 2])) return false;
  const bool in_list = n > 4 && is_number(fields[n - 3]);
  const std::size_t side = in_list ? n - 4 : n - 3;
  out.is_input = fields[side] == "INPUT";
  if (!out.is_input && fields[side] != "OUTPUT") return false;
  if (!parse_digits(fields[side + 1], out.slot)) return false;
  if (in_list) out.key = join(NameFields(fields).subspan(side + 1, 2));
  const std::string_view node = join(NameFields(fields).first(side));
  const std::size_t dash = node.find('-');
  if (dash == std::string_view::npos || dash == 0 || dash + 1 == node.size()) return false;
  out.op_name = node;
  out.op_type = node.substr(dash + 1);
  return true;
}

// "{name}_{side}_{slot}_shape_{d0}_{d1}…_{Type}_{format}", 1.2; a scalar has `shape_0`.
bool parse_bin_name(std::string_view rest, TensorFileName& out) {
  constexpr std::string_view kShapeWord = "_shape_";
  const std::size_t at = rest.rfind(kShapeWord);
  if (at == std::string_view::npos) return false;
  std::string_view tail = rest.substr(at + kShapeWord.size());
  rest = rest.substr(0, at);
  // A format may contain `_` (FRACTAL_Z), so the sizes are read from the left.
  std::int64_t size = 0;
  while (true) {
    const std::size_t end = tail.find('_');
    if (end == std::string_view::npos || !parse_digits(tail.substr(0, end), size)) break;
    out.shape.push_back(size);
    tail = tail.substr(end + 1);
  }
  const std::size_t end = tail.find('_');
  if (out.shape.empty() || end == std::string_view::npos) return false;
  if (out.shape.size() == 1 && out.shape[0] == 0) out.shape.clear();
  out.dtype = tail.substr(0, end);
  out.format = tail.substr(end + 1);
  // The suffix that Sonde appends to a name that is already used.
  std::uint32_t number = 0;
  const std::size_t dot = out.format.rfind('.');
  if (dot != std::string::npos && parse_digits(std::string_view(out.format).substr(dot + 1), number)) {
    out.format.resize(dot);
  }
  if (!parse_digits(take_last(rest, '_'), out.slot)) return false;
  if (!parse_side(take_last(rest, '_'), out.is_input)) return false;
  out.op_name = rest;
  const std::size_t scope = rest.rfind("--");
  const std::string_view last = scope == std::string_view::npos ? rest : rest.substr(scope + 2);
  const std::size_t op = last.rfind("-op");
  out.op_type = op == std::string_view::npos ? "Parameter" : last.substr(0, op);
  return !out.op_name.empty();
}

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
  if (name.ends_with(".npy")) {
    const std::string_view rest = name.substr(0, name.size() - 4);
    if (parse_npy_name(rest, out)) return true;
    out = TensorFileName();
    return parse_fx_name(rest, out);
  }
  if (name.ends_with(".bin")) return parse_bin_name(name.substr(0, name.size() - 4), out);
  return false;
}

bool parse_op_file_name(std::string_view name, OpFileName& out, bool any_time) {
  out = OpFileName();
  out.is_table = name.ends_with(".csv");
  if (out.is_table) name.remove_suffix(4);
  if (name.empty() || name.back() < '0' || name.back() > '9') return false;  // it ends with a time, or with a slice
  std::vector<std::string_view> fields = fields_in(name, '.');
  if (ends_in_slices(fields) && (fields.size() == 9 || fields.size() == 10)) fields.resize(fields.size() - 4);
  if (fields.size() < 4 || fields.size() > 6 || fields[0].empty() || fields[1].empty()) return false;
  if (!any_time && fields.back().size() < kShortestTime) return false;
  if (!parse_digits(fields.back(), out.timestamp_us)) return false;
  if (fields.size() == 4 && is_number(fields[1]) && is_number(fields[2])) {
    // The file of an exception: "{exception_info or the kernel}.{stream}.{task}.{time}".
    parse_digits(fields[1], out.stream_id);
    parse_digits(fields[2], out.task_id);
    out.op_type = out.op_name = fields[0];
    return true;
  }
  if (fields.size() == 6) fields.erase(fields.begin() + 2);  // the number of a dump of an ACL graph
  if (!parse_digits(fields[2], out.task_id)) return false;
  if (fields.size() == 5 && !parse_digits(fields[3], out.stream_id)) return false;
  out.op_type = fields[0];
  out.op_name = fields[1];
  if (is_swapped(out.op_type, out.op_name)) std::swap(out.op_type, out.op_name);
  return true;
}

}  // namespace sonde
