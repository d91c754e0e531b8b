#include "plan/config/mindspore_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>

#include "contract/setting_keys.h"
#include "plan/config/diagnostics.h"
#include "plan/config/dialect.h"
#include "plan/config/kernels.h"

namespace sonde {
namespace {

constexpr std::string_view kDumpModes =
    "an unsigned integer: 0 (all operators), 1 (those in kernels), 2 (those flagged by set_dump)";
constexpr std::string_view kDumpModesBefore20 = "an unsigned integer: 0 (all operators), 1 (those in kernels)";
constexpr std::string_view kInputOutput = "an unsigned integer: 0 (inputs and outputs), 1 (inputs), 2 (outputs)";
constexpr std::string_view kIterations = "\"all\", or numbers and ranges joined by '|', such as \"0|5-8\"";
constexpr std::string_view kIterationNumbers = "an unsigned integer: one step, or 0 for every step";
constexpr std::string_view kNetNames = "letters, digits, '-' and '_', at least one";
constexpr std::string_view kPaths = "an absolute path of letters, digits, '-', '_' and '/'";
constexpr std::string_view kDevices = "an array of device numbers, such as [0,1,2,3,4,5,6,7]";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool is_iteration_character(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '|'; }

std::string spelled_character(char c) {
  const std::string text = in_quotes(std::string_view(&c, 1));
  return c == ' ' ? "a space" : static_cast<unsigned char>(c) < 0x80 ? text : "a character that is not ASCII";
}

// 1.3 turned every token into numbers, and failed on one that is not a number.
bool every_token_is_a_range(std::string_view text) {
  while (true) {
    const std::string_view token = text.substr(0, text.find('|'));
    const std::size_t dash = token.find('-');
    const std::string_view first = token.substr(0, dash);
    const std::string_view last = dash == token.npos ? first : token.substr(dash + 1);
    for (const std::string_view number : {first, last}) {
      if (number.empty() || number.size() > 18 || number.find('-') != number.npos) return false;
    }
    if (token.size() == text.size()) return true;
    text.remove_prefix(token.size() + 1);
  }
}

// `path`, or its replacement. Empty after an error.
std::filesystem::path read_path(ObjectReader& reader, const JsonValue& common, Release rules,
                                Diagnostics& diagnostics) {
  const JsonMember* member = reader.find(keys::path);
  const std::size_t line = member != nullptr ? member->value.line : common.line;
  const std::string key = reader.path_of(keys::path);
  if (member != nullptr && !reader.string(keys::path, kPaths)) return {};
  std::string text = member != nullptr ? member->value.text : "";
  std::string found = in_quotes(text);
  if (text.empty() && rules < Release::v2_0) {
    diagnostics.error(line, key, fmt::format("{}; needed: {}", member != nullptr ? "empty" : "missing", kPaths));
    return {};
  }
  if (text.empty()) {
    const char* fallback = diagnostics.is_of_a_record() ? nullptr : std::getenv("MS_DIAGNOSTIC_DATA_PATH");
    if (fallback == nullptr || *fallback == '\0') {
      diagnostics.error(line, key,
                        fmt::format("{}, and MS_DIAGNOSTIC_DATA_PATH is not set; needed: {}",
                                    member != nullptr ? "empty" : "missing", kPaths));
      return {};
    }
    text = std::string(fallback) + "/debug_dump";
    found = in_quotes(text) + " (from MS_DIAGNOSTIC_DATA_PATH)";
  }
  const auto bad = std::find_if_not(text.begin(), text.end(), is_path_character);
  if (bad != text.end()) {
    diagnostics.error(line, key,
                      fmt::format("found {} with {} in it; allowed: {}; \"sonde_settings\": {{\"path\": …}} takes any "
                                  "absolute path",
                                  found, spelled_character(*bad), kPaths));
    return {};
  }
  if (text.front() != '/') {
    diagnostics.error(line, key, fmt::format("found {}, which is not absolute; allowed: {}", found, kPaths));
    return {};
  }
  std::filesystem::path path = std::filesystem::path(text).lexically_normal();
  return path.has_filename() || path == path.root_path() ? path : path.parent_path();
}

// MindSpore accepts names that no file system can hold, and then writes nothing.
void warn_of_long_names(const Plan& plan, ObjectReader& reader) {
  constexpr std::size_t kNameMax = 255, kPathMax = 4096;
  bool too_long = plan.path.native().size() >= kPathMax;
  for (const std::filesystem::path& part : plan.path) too_long = too_long || part.native().size() > kNameMax;
  const JsonMember* path = reader.find(keys::path);
  if (too_long && path != nullptr) {
    reader.warning(*path,
                   "too long for a file system (255 bytes for each name, 4095 in all); nothing can "
                   "be written there");
  }
  if (plan.net_name.size() > kNameMax) {
    reader.warning(*reader.find(keys::net_name),
                   "too long for a directory's name (255 bytes); nothing can be written there");
  }
}

void read_net_name(ObjectReader& reader, Plan& plan) {
  const JsonMember* member = reader.need(keys::net_name, kNetNames);
  const auto text = reader.string(keys::net_name, kNetNames);
  if (member == nullptr || !text) return;
  const auto bad = std::find_if_not(text->begin(), text->end(), is_name_character);
  const bool may_be_empty = plan.sonde.rules < Release::v2_0;
  if ((text->empty() && !may_be_empty) || bad != text->end()) reader.refuse(*member, kNetNames);
  plan.net_name = *text;
}

// A number of at most `most`; 0 where the key is missing or wrong.
std::uint64_t read_choice(ObjectReader& reader, std::string_view key, std::uint64_t most, std::string_view allowed) {
  const JsonMember* member = reader.need(key, allowed);
  const auto value = reader.number32(key, allowed);
  if (member == nullptr || !value) return 0;
  if (*value <= most) return *value;
  reader.refuse(*member, allowed);
  return 0;
}

}  // namespace

bool is_path_character(char c) { return is_name_character(c) || c == '/'; }

void read_place(ObjectReader& reader, const JsonValue& object, Plan& plan, Diagnostics& diagnostics) {
  if (plan.path.empty()) plan.path = read_path(reader, object, plan.sonde.rules, diagnostics);  // else: sonde_settings
  read_net_name(reader, plan);
  warn_of_long_names(plan, reader);
}

void read_dump_mode(ObjectReader& reader, std::string_view key, Plan& plan) {
  const bool old = plan.sonde.rules < Release::v2_0;
  plan.dump_mode = static_cast<DumpMode>(read_choice(reader, key, old ? 1 : 2, old ? kDumpModesBefore20 : kDumpModes));
}

void read_input_output(ObjectReader& reader, Plan& plan) {
  plan.input_output = static_cast<Sides>(read_choice(reader, keys::input_output, 2, kInputOutput));
}

void read_iteration(ObjectReader& reader, Plan& plan) {
  const JsonMember* member = reader.need(keys::iteration, kIterations);
  if (member == nullptr) return;
  if (member->value.is(JsonValue::Kind::unsigned_integer)) {
    reader.refuse(
        *member,
        fmt::format("{} (MindSpore 1.2 wrote a bare number; sonde_settings.version \"1.2\" reads it so)", kIterations));
    return;
  }
  const auto text = reader.string(keys::iteration, kIterations);
  if (!text) return;
  const bool legal = !text->empty() && std::all_of(text->begin(), text->end(), is_iteration_character);
  if (plan.sonde.rules == Release::v1_3 && *text != "all" && legal && !every_token_is_a_range(*text)) {
    reader.refuse(*member, fmt::format("{} (MindSpore 1.3 fails at the first step)", kIterations));
    return;
  }
  if (*text == "all" || legal) {
    plan.iteration = StepSet::parse(*text);
    return;
  }
  std::string without_spaces = *text;
  std::erase(without_spaces, ' ');
  const bool only_spaces =
      !without_spaces.empty() && without_spaces != *text &&
      (without_spaces == "all" || std::all_of(without_spaces.begin(), without_spaces.end(), is_iteration_character));
  std::string allowed(kIterations);
  if (only_spaces) allowed += "; without spaces it would be " + in_quotes(without_spaces);
  reader.refuse(*member, allowed);
}

void read_iteration_number(ObjectReader& reader, Plan& plan) {
  reader.need(keys::iteration, kIterationNumbers);
  const auto number = reader.number32(keys::iteration, kIterationNumbers);
  if (number && *number != 0) plan.iteration = StepSet::parse(std::to_string(*number));
}

// Any JSON number or boolean passes and is squeezed into 32 bits, as in MindSpore.
void read_support_device(ObjectReader& reader, Plan& plan, Diagnostics& diagnostics) {
  const JsonMember* member = reader.need(keys::support_device, kDevices);
  if (member == nullptr) return;
  if (!member->value.is(JsonValue::Kind::array)) return reader.refuse(*member, kDevices);
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < member->value.items.size(); ++i) {
    const JsonValue& item = member->value.items[i];
    const std::string key = fmt::format("{}[{}]", reader.path_of(keys::support_device), i);
    std::uint64_t device = 0;
    switch (item.kind) {
      case JsonValue::Kind::unsigned_integer:
        device = item.number;
        break;
      case JsonValue::Kind::negative_integer:
        device = static_cast<std::uint64_t>(std::strtoll(item.text.c_str(), nullptr, 10));
        break;
      case JsonValue::Kind::boolean:
        device = item.boolean ? 1 : 0;
        break;
      case JsonValue::Kind::floating: {
        const double value = std::strtod(item.text.c_str(), nullptr);
        device = value >= 0 && value < 4294967296.0 ? static_cast<std::uint64_t>(value) : UINT32_MAX;
        break;
      }
      default:
        diagnostics.error(item.line, key, fmt::format("found {}; allowed: {}", spelled(item), kUnsigned));
        continue;
    }
    device &= UINT32_MAX;
    if (!item.is(JsonValue::Kind::unsigned_integer) || item.number != device) {
      diagnostics.warning(item.line, key,
                          fmt::format("found {}, which is not a device number; read as {}", spelled(item), device));
    }
    if (!seen.insert(device).second) {
      diagnostics.warning(item.line, key, fmt::format("device {} is listed twice", device));
      continue;
    }
    plan.support_device.push_back(device);
  }
}

void read_kernels_of(ObjectReader& reader, Plan& plan, Diagnostics& diagnostics) {
  const JsonMember* kernels = reader.need(keys::kernels, "an array of operator names, types or name-regex(...)");
  if (kernels == nullptr) return;
  plan.kernels = read_kernels(*kernels, reader.path_of(keys::kernels), plan.dump_mode == DumpMode::kernels,
                              plan.sonde.rules, diagnostics);
}

JsonValue as_read_then(const JsonValue& value, std::string_view object, const Plan& plan, Diagnostics& diagnostics) {
  JsonValue read = value;
  std::erase_if(read.members, [&](const JsonMember& member) {
    const auto known = std::ranges::find_if(
        known_keys(), [&](const KnownKey& key) { return key.object == object && key.key == member.key; });
    if (known == known_keys().end() || known->since <= plan.sonde.rules) return false;
    diagnostics.warning(member.line, fmt::format("{}.{}", object, member.key),
                        fmt::format("not read: MindSpore {} does not know it; {} does", info(plan.sonde.rules).name,
                                    info(known->since).name));
    return true;
  });
  return read;
}

}  // namespace sonde
