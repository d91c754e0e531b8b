#include "plan/config/object_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "plan/config/diagnostics.h"

namespace sonde {

const JsonMember* ObjectReader::need(std::string_view key, std::string_view allowed) {
  const JsonMember* member = find(key);
  if (member == nullptr) {
    diagnostics_.error(object_.line, path_of(key), fmt::format("missing; needed: {}", allowed));
  }
  return member;
}

std::optional<std::uint64_t> ObjectReader::number(std::string_view key, std::string_view allowed) {
  const JsonMember* member = find(key);
  if (member == nullptr) return std::nullopt;
  if (member->value.is(JsonValue::Kind::unsigned_integer)) return member->value.number;
  refuse(*member, allowed);
  return std::nullopt;
}

std::optional<std::uint64_t> ObjectReader::number32(std::string_view key, std::string_view allowed) {
  const std::optional<std::uint64_t> value = number(key, allowed);
  if (!value || *value <= UINT32_MAX) return value;
  const std::uint64_t kept = *value & UINT32_MAX;
  warning(*find(key), fmt::format("found {}; MindSpore keeps its low 32 bits, so it is read as {}", *value, kept));
  return kept;
}

std::optional<std::string> ObjectReader::string(std::string_view key, std::string_view allowed) {
  const JsonMember* member = find(key);
  if (member == nullptr) return std::nullopt;
  if (member->value.is(JsonValue::Kind::string)) return member->value.text;
  refuse(*member, allowed);
  return std::nullopt;
}

std::optional<bool> ObjectReader::boolean(std::string_view key) {
  const JsonMember* member = find(key);
  if (member == nullptr) return std::nullopt;
  if (member->value.is(JsonValue::Kind::boolean)) return member->value.boolean;
  refuse(*member, "true, false (without quotes)");
  return std::nullopt;
}

std::optional<std::size_t> ObjectReader::word(std::string_view key, std::span<const std::string_view> words) {
  const JsonMember* member = find(key);
  if (member == nullptr) return std::nullopt;
  const auto found = std::find(words.begin(), words.end(), member->value.text);
  if (member->value.is(JsonValue::Kind::string) && found != words.end()) {
    return static_cast<std::size_t>(found - words.begin());
  }
  refuse(*member, fmt::format("\"{}\"", fmt::join(words, "\", \"")));
  return std::nullopt;
}

void ObjectReader::refuse(const JsonMember& member, std::string_view allowed) {
  error(member, fmt::format("found {}; allowed: {}", spelled(member.value), allowed));
}

void ObjectReader::error(const JsonMember& member, std::string message) {
  diagnostics_.error(member.value.line, path_of(member.key), std::move(message));
}

void ObjectReader::warning(const JsonMember& member, std::string message) {
  diagnostics_.warning(member.value.line, path_of(member.key), std::move(message));
}

std::string ObjectReader::path_of(std::string_view key) const {
  return name_.empty() ? std::string(key) : fmt::format("{}.{}", name_, key);
}

}  // namespace sonde
