#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <vector>

#include "config/diagnostics.h"
#include "config/dialect.h"
#include "config/nearest.h"
#include "config/object_reader.h"

namespace sonde {
namespace {

constexpr std::string_view kObject = "sonde_settings";
constexpr std::uint64_t kLeastBudget = 1 << 20;

constexpr std::array<std::string_view, 10> kLayouts = {"mindspore-1.2",
                                                       "mindspore-1.2-async",
                                                       "mindspore-2.0",
                                                       "mindspore-2.3",
                                                       "mindspore-2.5",
                                                       "mindspore-2.7",
                                                       "ge",
                                                       "o2",
                                                       "acl",
                                                       "torchair"};
constexpr std::array<std::string_view, 6> kVersions = {"1.2", "1.3", "2.0", "2.3", "2.5", "2.7"};

// Unlike MindSpore's objects, ours is read by us alone, so a key we do not know is a mistake.
void refuse_unknown_keys(const JsonValue& object, Diagnostics& diagnostics) {
  std::vector<std::string_view> ours;
  for (const KnownKey& known : known_keys()) {
    if (known.object == kObject) ours.push_back(known.key);
  }
  for (const JsonMember& member : object.members) {
    if (std::find(ours.begin(), ours.end(), member.key) != ours.end()) continue;
    diagnostics.error(member.line, fmt::format("{}.{}", kObject, member.key),
                      fmt::format("unknown key; the nearest known key is '{}'", nearest(member.key, ours).front()));
  }
}

// The written ones: "mindspore-2.0", "mindspore-2.3", …
std::string written(std::string_view LayoutVersionInfo::*name) {
  std::string text;
  for (const LayoutVersionInfo& version : layout_versions()) {
    text += (text.empty() ? "" : ", ") + in_quotes(version.*name);
  }
  return text;
}

// Either settles the other: the layout of a release, the release of a layout. Two that do not belong together would make
// a dump that says of itself what it is not.
void read_layout(ObjectReader& reader, SondeSettings& settings) {
  std::optional<LayoutVersion> by_layout, by_version;
  if (const auto layout = reader.word("layout", kLayouts)) {
    by_layout = layout_version(kLayouts[*layout]);
    if (!by_layout) {
      reader.error(*reader.find("layout"),
                   fmt::format("layout \"{}\" is not written by this version of Sonde, which writes {}",
                               kLayouts[*layout], written(&LayoutVersionInfo::layout)));
    }
  }
  if (const auto version = reader.word("version", kVersions)) {
    by_version = layout_of_release(kVersions[*version]);
    if (!by_version) {
      reader.error(*reader.find("version"),
                   fmt::format("version \"{}\" is not spoken by this version of Sonde, which speaks {}",
                               kVersions[*version], written(&LayoutVersionInfo::release)));
    }
  }
  if (by_layout && by_version && *by_layout != *by_version) {
    reader.error(*reader.find("version"),
                 fmt::format("found {}, but layout {} is that of {}; leave one of the two out",
                             in_quotes(info(*by_version).release), in_quotes(info(*by_layout).layout),
                             in_quotes(info(*by_layout).release)));
    return;
  }
  const std::optional<LayoutVersion> chosen = by_layout ? by_layout : by_version;
  if (!chosen) return;
  settings.layout = info(*chosen).layout;
  settings.version = info(*chosen).release;
}

}  // namespace

void read_sonde_settings(const JsonMember& member, Plan& plan, Diagnostics& diagnostics) {
  if (!member.value.is(JsonValue::Kind::object)) {
    diagnostics.error(member.value.line, std::string(kObject),
                      fmt::format("found {}; allowed: an object", spelled(member.value)));
    return;
  }
  SondeSettings& settings = plan.sonde;
  ObjectReader reader(member.value, kObject, diagnostics);
  refuse_unknown_keys(member.value, diagnostics);
  read_layout(reader, settings);

  constexpr std::array<std::string_view, 4> kSteps = {"automatic", "optimizer", "forward", "manual"};
  constexpr std::array kStepRules = {StepRule::automatic, StepRule::optimizer, StepRule::forward, StepRule::manual};
  if (const auto step = reader.word("step", kSteps)) settings.step = kStepRules[*step];

  constexpr std::array<std::string_view, 3> kWhenFull = {"wait", "statistics", "drop"};
  constexpr std::array kWhenFullRules = {WhenFull::wait, WhenFull::statistics, WhenFull::drop};
  if (const auto rule = reader.word("when_full", kWhenFull)) settings.when_full = kWhenFullRules[*rule];

  constexpr std::string_view kBudget = "an unsigned integer, at least 1048576 (1 MiB)";
  if (const auto budget = reader.number("budget_bytes", kBudget)) {
    settings.budget_bytes = *budget;
    if (*budget < kLeastBudget) reader.refuse(*reader.find("budget_bytes"), kBudget);
  }
  settings.reread = reader.boolean("reread").value_or(settings.reread);
  settings.raw_bfloat16 = reader.boolean("raw_bfloat16").value_or(settings.raw_bfloat16);

  constexpr std::array<std::string_view, 1> kSavedData = {"graph"};
  if (reader.word("saved_data", kSavedData)) plan.saved_data = SavedData::graph;
}

}  // namespace sonde
