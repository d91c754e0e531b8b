#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <vector>

#include "contract/setting_keys.h"
#include "ground/base/parse_number.h"
#include "plan/config/diagnostics.h"
#include "plan/config/dialect.h"
#include "plan/config/dump_settings.h"
#include "plan/config/nearest.h"
#include "plan/config/object_reader.h"

namespace sonde {
namespace {

// Unlike MindSpore's objects, ours is read by us alone, so a key we do not know is a mistake.
void refuse_unknown_keys(const JsonValue& object, Diagnostics& diagnostics) {
  std::vector<std::string_view> ours;
  for (const KnownKey& known : known_keys()) {
    if (known.object == keys::sonde_settings) ours.push_back(known.key);
  }
  for (const JsonMember& member : object.members) {
    if (std::find(ours.begin(), ours.end(), member.key) != ours.end()) continue;
    diagnostics.error(member.line, fmt::format("{}.{}", keys::sonde_settings, member.key),
                      fmt::format("unknown key; the nearest known key is '{}'", nearest(member.key, ours).front()));
  }
}

template <typename Row>
std::vector<std::string_view> names(std::span<const Row> rows) {
  std::vector<std::string_view> result;
  for (const Row& row : rows) result.push_back(row.name);
  return result;
}

// A layout implies a release, and a release a layout. Two that do not match would make a dump that describes itself
// wrongly.
OwnSettings read_layout(ObjectReader& reader, SondeSettings& settings) {
  std::optional<LayoutKind> layout;
  std::optional<Release> version;
  if (const auto index = reader.word(keys::layout, names(layouts()))) layout = layouts()[*index].kind;
  if (const auto index = reader.word(keys::version, names(releases()))) version = releases()[*index].release;
  if (layout && version && (*version < info(*layout).oldest || *version > info(*layout).newest)) {
    const std::string_view oldest = info(info(*layout).oldest).name, newest = info(info(*layout).newest).name;
    reader.error(*reader.find(keys::version),
                 fmt::format("found {}, but layout {} is that of {}{}; leave one of the two out",
                             in_quotes(info(*version).name), in_quotes(info(*layout).name), in_quotes(oldest),
                             oldest == newest ? "" : fmt::format(" to {}", in_quotes(newest))));
    return {};
  }
  const OwnSettings own{.layout = layout.has_value(), .version = version.has_value(), .saved_data = {}};
  if (!layout && !version) return own;
  settings.layout = layout ? *layout : layout_of(*version);
  settings.version = version ? *version : info(*layout).release;
  if (version) settings.rules = *version;
  return own;
}

// Reads what contract/settings.toml says all of.
struct PlainReader {
  ObjectReader& reader;

  void operator()(std::string_view key, bool& value) const { value = reader.boolean(key).value_or(value); }
  void operator()(std::string_view key, std::uint64_t& value, const NumberBounds& bounds) const {
    const auto number = reader.number(key, bounds.allowed);
    if (!number) return;
    value = *number;
    if (value < bounds.least || value > bounds.most) reader.refuse(*reader.find(key), bounds.allowed);
  }
  template <typename Enum, std::size_t kCount>
  void operator()(std::string_view key, Enum& value, const std::array<std::string_view, kCount>& words) const {
    if (const auto word = reader.word(key, words)) value = static_cast<Enum>(*word);
  }
};

void read_max_overhead(ObjectReader& reader, SondeSettings& settings) {
  const JsonMember* member = reader.find(keys::max_overhead);
  if (member == nullptr) return;
  const bool is_number = member->value.is(JsonValue::Kind::floating);
  const bool is_zero = member->value.is(JsonValue::Kind::unsigned_integer) && member->value.number == 0;
  double part = 0;
  if (is_number && !parse_number(member->value.text, part)) part = -1;
  settings.max_overhead = part;
  if (is_zero || (part >= 0.001 && part <= 1)) return;
  settings.max_overhead = 0;
  reader.refuse(*member, "a number from 0.001 to 1.0 (0.05: at most 5 % longer), or 0: no limit");
}

// A summary is meant to be always on: without a word it takes what nobody notices.
constexpr double kSummaryOverhead = 0.005;

void read_requests(ObjectReader& reader, SondeSettings& settings) {
  const JsonMember* member = reader.find(keys::requests);
  if (member == nullptr) return;
  constexpr std::string_view kAllowed = "a list of texts, each the ID of a request";
  if (!member->value.is(JsonValue::Kind::array)) return reader.refuse(*member, kAllowed);
  for (const JsonValue& item : member->value.items) {
    if (!item.is(JsonValue::Kind::string) || item.text.empty()) return reader.refuse(*member, kAllowed);
    settings.requests.push_back(item.text);
  }
}

void read_ring(ObjectReader& reader, SondeSettings& settings) {
  if (reader.find(keys::ring_bytes) == nullptr) settings.ring_bytes = settings.budget_bytes;
  constexpr std::array<std::string_view, 3> kSignals = {"SIGUSR1", "SIGUSR2", "none"};
  constexpr std::array kNumbers = {SIGUSR1, SIGUSR2, 0};
  settings.ring_signal = SIGUSR2;
  if (const auto signal = reader.word(keys::ring_signal, kSignals)) settings.ring_signal = kNumbers[*signal];
  for (const std::string_view key : {keys::ring_bytes, keys::ring_writes, keys::ring_signal}) {
    const JsonMember* member = reader.find(key);
    if (member != nullptr && settings.ring == 0) reader.warning(*member, "not used: \"ring\" is not set");
  }
}

}  // namespace

OwnSettings read_sonde_settings(const JsonValue& root, Plan& plan, Diagnostics& diagnostics) {
  const JsonMember* member = root.find(keys::sonde_settings);
  if (member == nullptr) return {};
  if (!member->value.is(JsonValue::Kind::object)) {
    diagnostics.error(member->value.line, std::string(keys::sonde_settings),
                      fmt::format("found {}; allowed: an object", spelled(member->value)));
    return {};
  }
  SondeSettings& settings = plan.sonde;
  ObjectReader reader(member->value, keys::sonde_settings, diagnostics);
  refuse_unknown_keys(member->value, diagnostics);
  OwnSettings own = read_layout(reader, settings);
  for_each_setting(settings, PlainReader{reader});
  // MindSpore's own `path` takes letters, digits, '-', '_' and '/' only.
  constexpr std::string_view kPath = "an absolute path";
  if (const auto path = reader.string(keys::path, kPath)) {
    plan.path = std::filesystem::path(*path).lexically_normal();
    if (!plan.path.has_filename() && plan.path != plan.path.root_path()) plan.path = plan.path.parent_path();
    if (!plan.path.is_absolute() || path->find('\0') != std::string::npos)
      reader.refuse(*reader.find(keys::path), kPath);
  }
  if (const auto inputs = reader.word(keys::inputs, kInputsWords)) settings.inputs_after = *inputs == 1;

  read_requests(reader, settings);
  read_ring(reader, settings);
  read_max_overhead(reader, settings);

  constexpr std::array<std::string_view, 2> kSavedData = {"graph", "summary"};
  constexpr std::array kMeanings = {SavedData::graph, SavedData::summary};
  if (const auto saved = reader.word(keys::saved_data, kSavedData)) own.saved_data = kMeanings[*saved];
  if (own.saved_data == SavedData::summary && reader.find(keys::max_overhead) == nullptr)
    settings.max_overhead = kSummaryOverhead;
  return own;
}

}  // namespace sonde
