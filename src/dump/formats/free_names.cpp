#include "dump/formats/free_names.h"

#include <array>

#include "ground/base/parse_number.h"

namespace sonde {
namespace {

// Removes the part after the last dot from `rest` and returns it; returns an empty text, and changes nothing, without a
// dot.
std::string_view take_last(std::string_view& rest) {
  const std::size_t dot = rest.rfind('.');
  if (dot == std::string_view::npos) return {};
  const std::string_view part = rest.substr(dot + 1);
  rest = rest.substr(0, dot);
  return part;
}

// The slot of a key `2` or `2.0.1`: its first number. Other keys have slot 0.
std::uint32_t slot_of(std::string_view key) {
  std::uint32_t slot = 0;
  return parse_digits(key.substr(0, key.find('.')), slot) ? slot : 0;
}

bool is_plain_slot(std::string_view key) {
  std::uint32_t slot = 0;
  return parse_digits(key, slot);
}

// "{record}.{side}.{key}" of msprobe.
bool parse_msprobe_tensor(std::string_view name, FreeTensorName& out) {
  struct Side {
    std::string_view text;
    bool is_input;
  };
  constexpr std::array kSides = {Side{".input.", true}, Side{".kwargs.", true}, Side{".output.", false},
                                 Side{".parameters.", true}};
  MsprobeName record;
  for (const Side& side : kSides) {
    const std::size_t at = name.find(side.text);
    if (at == std::string_view::npos || !parse_msprobe_name(name.substr(0, at), record)) continue;
    const std::string_view key = name.substr(at + side.text.size());
    out.op_name = name.substr(0, at);
    out.op_type = record.called;
    out.is_input = side.is_input;
    out.slot = slot_of(key);
    if (!is_plain_slot(key)) out.key = key;
    return true;
  }
  // "Module.a.Conv2d.parameters_grad.0.weight", ".debug.0.1"
  for (const std::string_view word : {".parameters_grad.", ".debug."}) {
    const std::size_t at = name.find(word);
    if (at == std::string_view::npos) continue;
    const bool is_debug = word == ".debug.";
    const std::size_t end = is_debug ? at + word.size() - 1 : name.find('.', at + word.size());
    if (end == std::string_view::npos || !parse_msprobe_name(name.substr(0, end), record)) continue;
    out.op_name = name.substr(0, end);
    out.op_type = is_debug ? std::string_view() : std::string_view("parameters_grad");
    out.key = name.substr(end + 1);
    out.slot = slot_of(out.key);
    if (is_plain_slot(out.key)) out.key.clear();
    return true;
  }
  return false;
}

// "{node}_device_{device}_{step}"
bool parse_captured(std::string_view name, FreeTensorName& out) {
  const std::size_t at = name.rfind("_device_");
  if (at == std::string_view::npos || at == 0) return false;
  const std::string_view numbers = name.substr(at + std::string_view("_device_").size());
  const std::size_t bar = numbers.find('_');
  std::uint64_t device = 0, step = 0;
  if (bar == std::string_view::npos || !parse_digits(numbers.substr(0, bar), device) ||
      !parse_digits(numbers.substr(bar + 1), step)) {
    return false;
  }
  out.op_name = name.substr(0, at);
  out.step = step;
  return true;
}

// "{op_name}.{output}.{time}"
bool parse_golden(std::string_view name, FreeTensorName& out) {
  std::string_view rest = name;
  if (!parse_digits(take_last(rest), out.timestamp_us) || !parse_digits(take_last(rest), out.slot) || rest.empty()) {
    return false;
  }
  out.op_name = rest;
  return true;
}

}  // namespace

bool is_free_tensor_name(std::string_view name) {
  return name.ends_with(".npy") || name.ends_with(".pt") || name.ends_with(".pth");
}

namespace {

bool parse_known(std::string_view name, FreeTensorName& out) {
  const std::string_view suffix = name.substr(name.rfind('.') + 1);
  if (is_free_tensor_name(name)) take_last(name);
  const auto fits = [&](bool (*parse)(std::string_view, FreeTensorName&)) {
    out = FreeTensorName();
    return parse(name, out);
  };
  return fits(parse_msprobe_tensor) || (suffix != "npy" && fits(parse_captured)) ||
         (suffix == "npy" && fits(parse_golden));
}

}  // namespace

bool has_free_grammar(std::string_view name) {
  FreeTensorName ignored;
  return parse_known(name, ignored);
}

FreeTensorName parse_free_tensor_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::string_view above = slash == std::string_view::npos ? std::string_view() : path.substr(0, slash + 1);
  std::string_view name = path.substr(above.size());
  FreeTensorName out;
  if (!parse_known(name, out)) {
    out = FreeTensorName();
    if (is_free_tensor_name(name)) take_last(name);
    out.op_name = name;
  }
  out.op_name.insert(0, above);
  return out;
}

bool parse_msprobe_name(std::string_view name, MsprobeName& out) {
  out = MsprobeName();
  std::string_view rest = name;
  const auto is_direction = [&](std::string_view word) {
    out.is_backward = word == "backward";
    return out.is_backward || word == "forward";
  };
  std::string_view last = take_last(rest);
  if (last == "debug") {  // "{name}[_grad].{call}.debug"
    if (!parse_digits(take_last(rest), out.call) || rest.empty()) return false;
    out.called = rest;
    out.is_backward = rest.ends_with("_grad");
    return true;
  }
  const std::size_t dot = name.find('.');
  if (dot == std::string_view::npos) return false;
  out.type = name.substr(0, dot);
  out.is_module = out.type == "Module" || out.type == "Cell";
  if (!out.is_module) {  // "{Type}.{api}.{call}.{direction}"
    if (!is_direction(last) || !parse_digits(take_last(rest), out.call) || rest.size() <= dot + 1) return false;
    out.called = rest.substr(dot + 1);
    return true;
  }
  // "{Module}.{path}.{Class}.{direction}.{call}", "{Module}.{path}.{Class}.parameters_grad[.{call}]"
  if (parse_digits(last, out.call)) last = take_last(rest);
  out.is_gradient = last == "parameters_grad";
  if (out.is_gradient) {
    out.is_backward = true;
  } else if (!is_direction(last)) {
    return false;
  }
  out.called = take_last(rest);
  if (out.called.empty()) return false;
  if (rest.size() > dot) out.path = rest.substr(dot + 1);
  return true;
}

}  // namespace sonde
