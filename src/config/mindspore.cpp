// The MindSpore 2.x dialect, as MindSpore 2.7 and 2.10 read it on a CPU (tried case by case; tests/engine/config).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "config/diagnostics.h"
#include "config/dialect.h"
#include "config/kernels.h"
#include "config/object_reader.h"
#include "config/statistic_category.h"

namespace sonde {
namespace {

constexpr std::string_view kCommon = "common_dump_settings";
constexpr std::string_view kE2e = "e2e_dump_settings";
constexpr std::string_view kSonde = "sonde_settings";

constexpr std::string_view kDumpModes =
    "an unsigned integer: 0 (all operators), 1 (those in kernels), 2 (those flagged by set_dump)";
constexpr std::string_view kInputOutput = "an unsigned integer: 0 (inputs and outputs), 1 (inputs), 2 (outputs)";
constexpr std::string_view kOpDebugModes = "an unsigned integer: 0 (off), 3 (overflow), 4 (exception)";
constexpr std::string_view kIterations = "\"all\", or numbers and ranges joined by '|', such as \"0|5-8\"";
constexpr std::string_view kNetNames = "letters, digits, '-' and '_', at least one";
constexpr std::string_view kPaths = "an absolute path of letters, digits, '-', '_' and '/'";
constexpr std::string_view kDevices = "an array of device numbers, such as [0,1,2,3,4,5,6,7]";
constexpr std::string_view kUnsigned = "an unsigned integer";

bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

bool is_path_character(char c) { return is_name_character(c) || c == '/'; }
bool is_iteration_character(char c) { return (c >= '0' && c <= '9') || c == '-' || c == '|'; }

std::string spelled_character(char c) {
  const std::string text = in_quotes(std::string_view(&c, 1));
  return c == ' ' ? "a space" : static_cast<unsigned char>(c) < 0x80 ? text : "a character that is not ASCII";
}

// ---- common_dump_settings
// -------------------------------------------------------------------------------------

// `path`, or what stands in for it. Empty after an error.
std::filesystem::path read_path(ObjectReader& reader, const JsonValue& common, Diagnostics& diagnostics) {
  const JsonMember* member = reader.find("path");
  const std::size_t line = member != nullptr ? member->value.line : common.line;
  const std::string key = reader.path_of("path");
  if (member != nullptr && !reader.string("path", kPaths)) return {};
  std::string text = member != nullptr ? member->value.text : "";
  std::string found = in_quotes(text);
  if (text.empty()) {
    const char* fallback = std::getenv("MS_DIAGNOSTIC_DATA_PATH");
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
                      fmt::format("found {} with {} in it; allowed: {}", found, spelled_character(*bad), kPaths));
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
  const JsonMember* path = reader.find("path");
  if (too_long && path != nullptr) {
    reader.warning(*path,
                   "too long for a file system (255 bytes for each name, 4095 in all); nothing can "
                   "be written there");
  }
  if (plan.net_name.size() > kNameMax) {
    reader.warning(*reader.find("net_name"),
                   "too long for a directory's name (255 bytes); nothing can be written there");
  }
}

void read_net_name(ObjectReader& reader, Plan& plan) {
  const JsonMember* member = reader.need("net_name", kNetNames);
  const auto text = reader.string("net_name", kNetNames);
  if (member == nullptr || !text) return;
  const auto bad = std::find_if_not(text->begin(), text->end(), is_name_character);
  if (text->empty() || bad != text->end()) reader.refuse(*member, kNetNames);
  plan.net_name = *text;
}

void read_iteration(ObjectReader& reader, Plan& plan) {
  const JsonMember* member = reader.need("iteration", kIterations);
  if (member == nullptr) return;
  if (member->value.is(JsonValue::Kind::unsigned_integer)) {
    reader.refuse(*member, fmt::format("{} (MindSpore 1.2 wrote a bare number)", kIterations));
    return;
  }
  const auto text = reader.string("iteration", kIterations);
  if (!text) return;
  const bool legal = !text->empty() && std::all_of(text->begin(), text->end(), is_iteration_character);
  if (*text == "all" || legal) {
    plan.iteration = IterationSet::parse(*text);
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

// Any JSON number or boolean passes and is squeezed into 32 bits, as in MindSpore.
void read_support_device(ObjectReader& reader, Plan& plan, Diagnostics& diagnostics) {
  const JsonMember* member = reader.need("support_device", kDevices);
  if (member == nullptr) return;
  if (!member->value.is(JsonValue::Kind::array)) return reader.refuse(*member, kDevices);
  std::set<std::uint64_t> seen;
  for (std::size_t i = 0; i < member->value.items.size(); ++i) {
    const JsonValue& item = member->value.items[i];
    const std::string key = fmt::format("{}[{}]", reader.path_of("support_device"), i);
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
                          fmt::format("found {}, which is no device number; read as {}", spelled(item), device));
    }
    if (!seen.insert(device).second) {
      diagnostics.warning(item.line, key, fmt::format("device {} is listed twice", device));
      continue;
    }
    plan.support_device.push_back(device);
  }
}

// 1 and 2, the overflow modes of single units on old hardware, mean 3 today. Nullopt when the value is an error.
std::optional<std::uint64_t> read_op_debug_mode(ObjectReader& reader) {
  const JsonMember* member = reader.find("op_debug_mode");
  if (member == nullptr) return 0;
  const auto mode = reader.number32("op_debug_mode", kOpDebugModes);
  if (!mode) return std::nullopt;
  if (*mode > 4) {
    reader.refuse(*member, kOpDebugModes);
    return std::nullopt;
  }
  if (*mode == 1 || *mode == 2) reader.warning(*member, fmt::format("found {}; read as 3 (overflow)", *mode));
  return *mode == 1 || *mode == 2 ? 3 : *mode;
}

void read_overflow_number(ObjectReader& reader, std::optional<std::uint64_t> op_debug_mode, Plan& plan) {
  const JsonMember* member = reader.find("overflow_number");
  if (member == nullptr) return;
  if (op_debug_mode && *op_debug_mode != 3) {
    reader.error(*member, fmt::format("found {} while op_debug_mode is {}; allowed: only with op_debug_mode 3",
                                      spelled(member->value), *op_debug_mode));
    return;
  }
  plan.overflow_number = reader.number32("overflow_number", "an unsigned integer, 0 for no limit").value_or(0);
}

void read_saved_data(ObjectReader& reader, Plan& plan) {
  constexpr std::array<std::string_view, 3> kWords = {"tensor", "statistic", "full"};
  constexpr std::array kValues = {SavedData::tensor, SavedData::statistic, SavedData::full};
  const JsonMember* member = reader.find("saved_data");
  if (member == nullptr) return;
  // Exception mode replaces the word before it is looked at; only its type counts.
  if (plan.op_debug_mode == 4 && member->value.is(JsonValue::Kind::string)) {
    if (member->value.text != "tensor") {
      reader.warning(*member, fmt::format("found {}; op_debug_mode 4 saves tensors, so it becomes \"tensor\"",
                                          spelled(member->value)));
    }
    return;
  }
  if (const auto word = reader.word("saved_data", kWords)) plan.saved_data = kValues[*word];
}

// No file format is read on a CPU, whatever the key holds: tensors are npy files.
void read_file_format(ObjectReader& reader, Plan& plan) {
  const JsonMember* member = reader.find("file_format");
  if (member == nullptr || member->value.text == "npy") return;
  if (plan.e2e && member->value.text == "bin") return;
  reader.warning(*member,
                 fmt::format("found {}; not read on a CPU, tensors are written as npy files", spelled(member->value)));
}

template <typename Enum>
Enum checked_enum(ObjectReader& reader, std::string_view key, std::string_view allowed) {
  const JsonMember* member = reader.need(key, allowed);
  const auto value = reader.number32(key, allowed);
  if (member != nullptr && value && *value > 2) reader.refuse(*member, allowed);
  return static_cast<Enum>(value.value_or(0) <= 2 ? value.value_or(0) : 0);
}

void read_common(const JsonValue& common, Plan& plan, Diagnostics& diagnostics) {
  ObjectReader reader(common, kCommon, diagnostics);
  plan.dump_mode = checked_enum<DumpMode>(reader, "dump_mode", kDumpModes);
  plan.path = read_path(reader, common, diagnostics);
  read_net_name(reader, plan);
  warn_of_long_names(plan, reader);
  read_iteration(reader, plan);
  plan.input_output = checked_enum<Sides>(reader, "input_output", kInputOutput);
  if (const JsonMember* kernels = reader.need("kernels", "an array of operator names, types or name-regex(...)")) {
    plan.kernels = read_kernels(*kernels, reader.path_of("kernels"), plan.dump_mode == DumpMode::kernels, diagnostics);
  }
  read_support_device(reader, plan, diagnostics);
  const std::optional<std::uint64_t> op_debug_mode = read_op_debug_mode(reader);
  plan.op_debug_mode = op_debug_mode.value_or(0);
  read_overflow_number(reader, op_debug_mode, plan);
  read_saved_data(reader, plan);
  read_file_format(reader, plan);
  plan.initial_iteration = reader.number32("initial_iteration", kUnsigned).value_or(0);
}

// ---- e2e_dump_settings
// ----------------------------------------------------------------------------------------

void read_sampling(ObjectReader& reader, Plan& plan) {
  constexpr std::string_view kModes = "an unsigned integer: 0 (whole tensors), 1 (the first sample_num elements)";
  constexpr std::string_view kNumbers = "an unsigned integer, at least 1";
  if (const auto mode = reader.number32("sample_mode", kModes)) {
    if (*mode > 1) reader.refuse(*reader.find("sample_mode"), kModes);
    plan.sample_mode = *mode;
  }
  if (plan.sample_mode != 1) return;  // sample_num is then not read: anything passes
  if (const auto count = reader.number32("sample_num", kNumbers)) {
    if (*count < 1) reader.refuse(*reader.find("sample_num"), kNumbers);
    plan.sample_num = *count;
  }
}

void read_e2e(const JsonValue& e2e, Plan& plan, Diagnostics& diagnostics) {
  constexpr std::array<std::string_view, 2> kPlaces = {"host", "device"};
  constexpr std::array<std::string_view, 2> kPrecisions = {"high", "low"};
  ObjectReader reader(e2e, kE2e, diagnostics);
  plan.enable = reader.boolean("enable").value_or(plan.enable);
  plan.trans_flag = reader.boolean("trans_flag").value_or(plan.trans_flag);
  if (const auto place = reader.word("stat_calc_mode", kPlaces)) plan.stat_calc_mode = kPlaces[*place];
  if (const auto precision = reader.word("device_stat_precision_mode", kPrecisions)) {
    plan.device_stat_precision_mode = kPrecisions[*precision];
  }
  read_sampling(reader, plan);
  plan.save_kernel_args = reader.boolean("save_kernel_args").value_or(plan.save_kernel_args);
}

// ---- what keys do to each other
// -------------------------------------------------------------------------------

// The two objects, for messages about keys in either.
struct Objects {
  ObjectReader common;
  ObjectReader e2e;
};

void adjust_for_debug_modes(Objects& objects, Plan& plan) {
  const auto warn = [](ObjectReader& reader, std::string_view key, std::string message) {
    if (const JsonMember* member = reader.find(key)) reader.warning(*member, std::move(message));
  };
  if (plan.op_debug_mode != 0 && plan.dump_mode != DumpMode::all) {
    warn(objects.common, "dump_mode",
         fmt::format("op_debug_mode {} looks at every operator, so it becomes 0", plan.op_debug_mode));
    plan.dump_mode = DumpMode::all;
  }
  if (plan.op_debug_mode == 3 && plan.input_output != Sides::both) {
    warn(objects.common, "input_output", "op_debug_mode 3 keeps inputs and outputs, so it becomes 0");
    plan.input_output = Sides::both;
  }
  if (plan.op_debug_mode == 4 && !plan.iteration.is_all()) {
    warn(objects.common, "iteration", "op_debug_mode 4 watches every iteration, so it becomes \"all\"");
    plan.iteration = IterationSet::all();
  }
  if (plan.op_debug_mode == 4 && plan.sample_mode != 0) {
    warn(objects.e2e, "sample_mode", "op_debug_mode 4 saves whole tensors, so it becomes 0");
    plan.sample_mode = 0;
  }
}

void adjust_statistics(Objects& objects, Plan& plan, Diagnostics& diagnostics) {
  if (plan.stat_calc_mode == "device") {
    const std::string_view why = plan.wants_tensors()
                                     ? "saved_data \"tensor\" and \"full\" need the tensors on the host"
                                     : "on a CPU the tensors are on the host";
    objects.e2e.warning(*objects.e2e.find("stat_calc_mode"), fmt::format("{}, so it becomes \"host\"", why));
    plan.stat_calc_mode = "host";
  }
  const JsonMember* categories = objects.common.find("statistic_category");
  if (categories == nullptr) return;
  read_statistic_category(*categories, objects.common.path_of("statistic_category"), plan, diagnostics);
}

// What the plan holds and this version of Sonde does not act on yet must not look as if it did.
void warn_of_what_is_only_held(Objects& objects, const Plan& plan) {
  const auto warn = [](ObjectReader& reader, std::string_view key, std::string message) {
    if (const JsonMember* member = reader.find(key)) reader.warning(*member, std::move(message));
  };
  if (plan.save_kernel_args) {
    warn(objects.e2e, "save_kernel_args", "operators' arguments are not recorded in this version of Sonde yet");
  }
}

// What the release that is asked for does otherwise than the newest.
void follow_release(Objects& objects, Plan& plan) {
  const ReleaseInfo& release = info(plan.sonde.version);
  if (const auto columns = release.columns; !columns.empty()) {
    const JsonMember* member = objects.common.find("statistic_category");
    if (member != nullptr && plan.wants_statistics()) {
      objects.common.warning(*member, fmt::format("not used: MindSpore {} does not know it, and the columns of layout "
                                                  "\"{}\" are always the same",
                                                  release.name, info(plan.sonde.layout).name));
    }
    plan.statistic_category.assign(columns.begin(), columns.end());
  }
  const bool selects_nothing =
      plan.dump_mode == DumpMode::kernels && plan.kernels.empty() && !plan.empty_kernels_select_all();
  if (const JsonMember* kernels = objects.common.find("kernels"); selects_nothing && kernels != nullptr) {
    objects.common.warning(*kernels,
                           fmt::format("empty under dump_mode 1, which in MindSpore {} selects nothing; dump_mode 0 "
                                       "selects every operator",
                                       release.name));
  }
}

const JsonValue& empty_object() {
  static const JsonValue value = [] {
    JsonValue empty;
    empty.kind = JsonValue::Kind::object;
    return empty;
  }();
  return value;
}

}  // namespace

void read_mindspore(const JsonValue& root, Plan& plan, Diagnostics& diagnostics) {
  plan.dialect = "mindspore-2.x";
  plan.file_format = FileFormat::npy;
  const JsonMember* common = root.find(kCommon);
  const JsonMember* e2e = root.find(kE2e);
  plan.e2e = e2e != nullptr;
  warn_of_unknown_keys(root, "", diagnostics);

  if (e2e == nullptr) {
    diagnostics.warning(0, std::string(kE2e),
                        "missing; the dump is written as rank_N/... all the same, as MindSpore does on a CPU");
  } else if (!e2e->value.is(JsonValue::Kind::object)) {
    diagnostics.warning(e2e->value.line, std::string(kE2e),
                        fmt::format("found {}; read as {{}}, as MindSpore does", spelled(e2e->value)));
  }
  const JsonValue& e2e_value = e2e != nullptr ? e2e->value : empty_object();
  warn_of_unknown_keys(e2e_value, kE2e, diagnostics);
  read_e2e(e2e_value, plan, diagnostics);

  if (common == nullptr) {
    diagnostics.error(root.line, std::string(kCommon),
                      "missing; needed: an object with dump_mode, path, net_name, iteration, "
                      "input_output, kernels, support_device");
  } else if (!common->value.is(JsonValue::Kind::object)) {
    diagnostics.error(common->value.line, std::string(kCommon),
                      fmt::format("found {}; allowed: an object", spelled(common->value)));
  } else {
    warn_of_unknown_keys(common->value, kCommon, diagnostics);
    read_common(common->value, plan, diagnostics);
    Objects objects{{common->value, kCommon, diagnostics}, {e2e_value, kE2e, diagnostics}};
    adjust_for_debug_modes(objects, plan);
    adjust_statistics(objects, plan, diagnostics);
    warn_of_what_is_only_held(objects, plan);
  }
  if (const JsonMember* ours = root.find(kSonde)) read_sonde_settings(*ours, plan, diagnostics);
  if (common != nullptr) {
    Objects objects{{common->value, kCommon, diagnostics}, {e2e_value, kE2e, diagnostics}};
    follow_release(objects, plan);
  }
}

}  // namespace sonde
