#include "dump/summary/summary_files.h"

#include <xxhash.h>

#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "ground/base/json.h"

namespace sonde {
namespace {

constexpr std::array<std::string_view, 3> kKinds = {"output", "gradient", "loss"};  // by SummaryKind

struct EventBytes {
  std::uint64_t step;
  std::uint32_t series, unused;
  SummaryCell cell;
  std::uint64_t check;  // of all that precedes it
};
static_assert(sizeof(EventBytes) == kSummaryEventBytes);

std::optional<SummaryKind> kind_in(const Json& word) {
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (word == kKinds[i]) return static_cast<SummaryKind>(i);
  }
  return std::nullopt;
}

std::optional<Dims> dims_in(const Json& sizes) {
  if (!sizes.is_array()) return std::nullopt;
  std::vector<std::int64_t> values;
  for (const Json& size : sizes) {
    if (!size.is_number_unsigned()) return std::nullopt;
    values.push_back(size.get<std::int64_t>());
  }
  return Dims(values);
}

}  // namespace

std::string text_of(const SummaryEvent& event) {
  EventBytes bytes{.step = event.step, .series = event.series, .unused = 0, .cell = event.cell, .check = 0};
  bytes.check = XXH3_64bits(&bytes, offsetof(EventBytes, check));
  return {reinterpret_cast<const char*>(&bytes), sizeof bytes};
}

std::optional<SummaryEvent> event_of(std::string_view text) {
  EventBytes bytes;
  if (text.size() != sizeof bytes) return std::nullopt;
  std::memcpy(static_cast<void*>(&bytes), text.data(), sizeof bytes);
  if (bytes.check != XXH3_64bits(&bytes, offsetof(EventBytes, check))) return std::nullopt;
  return SummaryEvent{.step = bytes.step, .series = bytes.series, .cell = bytes.cell};
}

std::string text_of(const SummarySeries& series) {
  Json line;
  line["kind"] = kKinds[static_cast<std::size_t>(series.kind)];
  line["name"] = series.name;
  line["type"] = series.type;
  line["dtype"] = info(series.dtype).lower;
  line["shape"] = Json::array();
  for (const std::int64_t size : series.shape) line["shape"].push_back(static_cast<std::uint64_t>(size));
  return text_of_json(line) + "\n";
}

std::optional<SummarySeries> series_of(std::string_view text) {
  const Json line = json_of_others(text);
  if (!line.is_object()) return std::nullopt;
  const auto word = [&](const char* key) { return line.value(key, Json()); };
  const std::optional<SummaryKind> kind = kind_in(word("kind"));
  std::optional<Dims> shape = dims_in(word("shape"));
  if (!kind || !shape || !word("name").is_string() || !word("type").is_string() || !word("dtype").is_string()) {
    return std::nullopt;
  }
  return SummarySeries{.kind = *kind,
                       .name = word("name").get<std::string>(),
                       .type = word("type").get<std::string>(),
                       .dtype = dtype_from_name(word("dtype").get<std::string>()),
                       .shape = std::move(*shape)};
}

}  // namespace sonde
