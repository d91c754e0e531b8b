#include "attributes.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <bit>
#include <deque>
#include <functional>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "hash.h"
#include "process_groups.h"

namespace sonde_torch {
namespace {

using c10::IValue;

std::uint64_t hash_value(std::uint64_t hash, const IValue& value) {
  if (value.isNone()) return mix(hash, 1);
  if (value.isBool()) return mix(hash, 2 + (value.toBool() ? 1 : 0));
  if (value.isInt()) return mix(mix(hash, 4), static_cast<std::uint64_t>(value.toInt()));
  if (value.isDouble()) return mix(mix(hash, 5), std::bit_cast<std::uint64_t>(value.toDouble()));
  if (value.isString()) return mix(mix(hash, 6), hash_of(value.toStringView()));
  if (value.isDevice()) return mix(mix(hash, 7), hash_of(value.toDevice().str()));
  if (value.isComplexDouble()) {
    const c10::complex<double> number = value.toComplexDouble();
    return mix(mix(hash, std::bit_cast<std::uint64_t>(number.real())), std::bit_cast<std::uint64_t>(number.imag()));
  }
  if (value.isList()) {
    hash = mix(hash, 8);
    for (const IValue& element : value.toListRef()) hash = hash_value(hash, element);
    return hash;
  }
  if (const std::optional<std::string> name = name_of_object(value)) return mix(mix(hash, 10), hash_of(*name));
  return mix(hash, 9);  // a generator, a stream: only the kind counts
}

// The memory that sonde_attribute points to.
struct Value {
  std::uint32_t kind = SONDE_ATTRIBUTE_NONE;
  std::vector<std::int64_t> integers;
  std::vector<double> reals;
  std::string text;
};

template <typename T>
std::string streamed(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}

// torch's own text for any other value; tensors are excluded before.
std::string text_of(const IValue& value) {
  if (value.isString()) return std::string(value.toStringView());
  if (value.isDevice()) return value.toDevice().str();
  if (value.isComplexDouble()) {
    return std::to_string(value.toComplexDouble().real()) + "+" + std::to_string(value.toComplexDouble().imag()) + "j";
  }
  if (value.isGenerator()) return "generator";
  if (const std::optional<std::string> name = name_of_object(value)) return *name;
  if (value.isList()) {
    std::string text;
    for (const IValue& element : value.toListRef()) text += (text.empty() ? "[" : ", ") + text_of(element);
    return text.empty() ? "[]" : text + "]";
  }
  return value.isPtrType() ? value.tagKind() : streamed(value);
}

std::string enumerator(ArgumentForm form, std::int64_t number) {
  switch (form) {
    case ArgumentForm::dtype:
      return c10::toString(static_cast<c10::ScalarType>(number));
    case ArgumentForm::layout:
      return streamed(static_cast<c10::Layout>(number));
    case ArgumentForm::memory_format:
      return streamed(static_cast<c10::MemoryFormat>(number));
    case ArgumentForm::plain:
      break;
  }
  return std::to_string(number);
}

Value list_of(const IValue& list) {
  Value out;
  const c10::ArrayRef<IValue> elements = list.toListRef();
  const auto all = [&](auto is) { return std::all_of(elements.begin(), elements.end(), is); };
  if (all([](const IValue& v) { return v.isInt(); })) {
    out.kind = SONDE_ATTRIBUTE_INTEGERS;
    for (const IValue& v : elements) out.integers.push_back(v.toInt());
  } else if (all([](const IValue& v) { return v.isBool(); })) {
    out.kind = SONDE_ATTRIBUTE_BOOLEANS;
    for (const IValue& v : elements) out.integers.push_back(v.toBool() ? 1 : 0);
  } else if (all([](const IValue& v) { return v.isDouble(); })) {
    out.kind = SONDE_ATTRIBUTE_REALS;
    for (const IValue& v : elements) out.reals.push_back(v.toDouble());
  } else {
    out.kind = SONDE_ATTRIBUTE_TEXT;
    out.text = text_of(list);
  }
  return out;
}

Value value_of(const IValue& value, ArgumentForm form) {
  Value out;
  if (value.isNone()) return out;
  if (value.isList()) return list_of(value);
  if (value.isBool()) {
    out.kind = SONDE_ATTRIBUTE_BOOLEAN;
    out.integers = {value.toBool() ? 1 : 0};
  } else if (value.isInt() && form == ArgumentForm::plain) {
    out.kind = SONDE_ATTRIBUTE_INTEGER;
    out.integers = {value.toInt()};
  } else if (value.isDouble()) {
    out.kind = SONDE_ATTRIBUTE_REAL;
    out.reals = {value.toDouble()};
  } else {
    out.kind = SONDE_ATTRIBUTE_TEXT;
    out.text = value.isInt() ? enumerator(form, value.toInt()) : text_of(value);
  }
  return out;
}

void add(std::vector<sonde_attribute>& attributes, const char* name, const Value& value) {
  sonde_attribute& out = attributes.emplace_back();
  out.name = name;
  out.kind = value.kind;
  out.integers = value.integers.empty() ? nullptr : value.integers.data();
  out.reals = value.reals.empty() ? nullptr : value.reals.data();
  out.count = static_cast<std::uint32_t>(std::max(value.integers.size(), value.reals.size()));
  out.text = value.text.c_str();
}

}  // namespace

std::uint64_t attributes_hash(const OpInfo& info, c10::ArrayRef<const IValue> values) {
  std::uint64_t hash = mix(0x5D588B656C078965ULL, info.number);
  const std::size_t count = std::min(info.arguments.size(), values.size());
  for (std::size_t i = 0; i < count; ++i) {
    if (info.arguments[i].kind == ArgumentKind::other) hash = hash_value(hash, values[i]);
  }
  return hash != 0 ? hash : 1;
}

void report_attributes(const struct sonde_api& api, sonde_op* op, const OpInfo& info,
                       c10::ArrayRef<const IValue> values, std::string_view layouts, std::string_view caller) {
  std::deque<Value> held;
  std::vector<sonde_attribute> attributes;
  const std::size_t count = std::min(info.arguments.size(), values.size());
  for (std::size_t i = 0; i < count; ++i) {
    const ArgumentInfo& argument = info.arguments[i];
    if (argument.kind != ArgumentKind::other) continue;
    add(attributes, argument.name.c_str(), held.emplace_back(value_of(values[i], argument.form)));
    std::vector<std::int64_t> ranks = group_ranks(values[i], argument.name == "group_name");
    if (ranks.empty()) continue;
    Value& of_group = held.emplace_back();
    of_group.kind = SONDE_ATTRIBUTE_INTEGERS;
    of_group.integers = std::move(ranks);
    add(attributes, "group_ranks", of_group);
  }
  const auto add_text = [&](const char* name, std::string_view text) {
    if (text.empty()) return;
    Value& value = held.emplace_back();
    value.kind = SONDE_ATTRIBUTE_TEXT;
    value.text = text;
    add(attributes, name, value);
  };
  add_text("placements", layouts);
  add_text("called_by", caller);
  api.op_attributes(op, attributes.data(), static_cast<std::uint32_t>(attributes.size()));
}

}  // namespace sonde_torch
