// The MindSpore dialects from 1.3 on. 2.x as MindSpore 2.7 and 2.10 read it on a CPU (tried case by case;
// tests/engine/config).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "contract/setting_keys.h"
#include "plan/config/diagnostics.h"
#include "plan/config/dialect.h"
#include "plan/config/mindspore_keys.h"
#include "plan/config/object_reader.h"
#include "plan/config/statistic_category.h"

namespace sonde {
namespace {

constexpr std::string_view kOpDebugModes = "an unsigned integer: 0 (off), 3 (overflow), 4 (exception)";

// The settings that choose the tree and the file format if the file does not name them.
struct Mode {
  Release rules = Release::v2_7;  // of plan.sonde.rules
  bool named = false;             // sonde_settings.version was given
  bool asynchronous = false;      // not written by the run itself: file_format is read
};

// ---- common_dump_settings

// The valid values of op_debug_mode in each release, and the reason to refuse another.
std::string allowed_op_debug_modes(const Mode& mode, const Plan& plan) {
  constexpr std::string_view kOld = "an unsigned integer: 0 (off), 1, 2, 3 (overflow)";
  if (mode.rules < Release::v2_3) return std::string(kOld);
  if (mode.rules > Release::v2_3 || !mode.asynchronous) return std::string(kOpDebugModes);
  return plan.sonde.layout == LayoutKind::ge ? std::string(kOld) : std::string(kOld) + ", 4 (exception)";
}

bool is_op_debug_mode(std::uint64_t value, const Mode& mode, const Plan& plan) {
  if (mode.rules > Release::v2_3) return value <= 4;  // 1 and 2 in silence
  if (mode.rules == Release::v2_3 && !mode.asynchronous) return value == 0 || value == 3 || value == 4;
  return value <= 3 || (value == 4 && mode.rules == Release::v2_3 && plan.sonde.layout != LayoutKind::ge);
}

// 1 and 2, the overflow modes of single units on old hardware, mean 3 today. Nullopt when the value is an error.
std::optional<std::uint64_t> read_op_debug_mode(ObjectReader& reader, const Mode& mode, const Plan& plan) {
  const std::string allowed = allowed_op_debug_modes(mode, plan);
  const JsonMember* member =
      mode.rules == Release::v1_3 ? reader.need(keys::op_debug_mode, allowed) : reader.find(keys::op_debug_mode);
  if (member == nullptr) return 0;
  const auto value = reader.number32(keys::op_debug_mode, allowed);
  if (!value) return std::nullopt;
  if (!is_op_debug_mode(*value, mode, plan)) {
    reader.refuse(*member, allowed);
    return std::nullopt;
  }
  if (*value == 1 || *value == 2) reader.warning(*member, fmt::format("found {}; read as 3 (overflow)", *value));
  return *value == 1 || *value == 2 ? 3 : *value;
}

void read_overflow_number(ObjectReader& reader, std::optional<std::uint64_t> op_debug_mode, Plan& plan) {
  const JsonMember* member = reader.find(keys::overflow_number);
  if (member == nullptr) return;
  if (op_debug_mode && *op_debug_mode != 3) {
    reader.error(*member, fmt::format("found {} while op_debug_mode is {}; allowed: only with op_debug_mode 3",
                                      spelled(member->value), *op_debug_mode));
    return;
  }
  plan.overflow_number = reader.number32(keys::overflow_number, "an unsigned integer, 0 for no limit").value_or(0);
}

void read_saved_data(ObjectReader& reader, Plan& plan) {
  constexpr std::array<std::string_view, 3> kWords = {"tensor", "statistic", "full"};
  constexpr std::array kValues = {SavedData::tensor, SavedData::statistic, SavedData::full};
  const JsonMember* member = reader.find(keys::saved_data);
  if (member == nullptr) return;
  // Exception mode replaces the text before it is checked; only its type counts.
  if (plan.op_debug_mode == 4 && member->value.is(JsonValue::Kind::string)) {
    if (member->value.text != "tensor") {
      reader.warning(*member, fmt::format("found {}; op_debug_mode 4 saves tensors, so it becomes \"tensor\"",
                                          spelled(member->value)));
    }
    return;
  }
  if (const auto word = reader.word(keys::saved_data, kWords)) plan.saved_data = kValues[*word];
}

// Layouts that CANN writes: files are containers unless something else is asked for.
bool is_written_by_cann(LayoutKind layout) {
  return layout == LayoutKind::ge || layout == LayoutKind::o0 || layout == LayoutKind::o2 ||
         layout == LayoutKind::mindspore_1_2_async;
}

// A synchronous dump has npy files, whatever the key holds.
void read_file_format(ObjectReader& reader, const Mode& mode, Plan& plan) {
  constexpr std::array<std::string_view, 2> kFormats = {"bin", "npy"};
  constexpr std::array kValues = {FileFormat::bin, FileFormat::npy};
  const JsonMember* member = reader.find(keys::file_format);
  const bool by_cann = is_written_by_cann(plan.sonde.layout);
  const bool read = mode.asynchronous || by_cann, strictly = mode.named || by_cann;
  if (read && strictly) plan.file_format = FileFormat::bin;
  if (member == nullptr) return;
  const bool is_known =
      member->value.is(JsonValue::Kind::string) && std::ranges::find(kFormats, member->value.text) != kFormats.end();
  if (read && (strictly || is_known)) {
    if (const auto format = reader.word(keys::file_format, kFormats)) plan.file_format = kValues[*format];
  } else if (!is_known) {
    reader.warning(
        *member, fmt::format("found {}; not read on a CPU, tensors are written as npy files", spelled(member->value)));
  } else if (!plan.enable && member->value.text == "bin") {
    reader.warning(*member,
                   "found \"bin\"; not read beside e2e_dump_settings, as in MindSpore: tensors are npy files. "
                   "Without that object they are containers");
  }
}

void read_common(const JsonValue& common, const Mode& mode, Plan& plan, Diagnostics& diagnostics) {
  ObjectReader reader(common, keys::common_dump_settings, diagnostics);
  read_dump_mode(reader, keys::dump_mode, plan);
  read_place(reader, common, plan, diagnostics);
  read_iteration(reader, plan);
  read_input_output(reader, plan);
  read_kernels_of(reader, plan, diagnostics);
  read_support_device(reader, plan, diagnostics);
  const std::optional<std::uint64_t> op_debug_mode = read_op_debug_mode(reader, mode, plan);
  plan.op_debug_mode = op_debug_mode.value_or(0);
  read_overflow_number(reader, op_debug_mode, plan);
  read_saved_data(reader, plan);
  read_file_format(reader, mode, plan);
  plan.initial_iteration = reader.number32(keys::initial_iteration, kUnsigned).value_or(0);
}

// ---- e2e_dump_settings

void read_sampling(ObjectReader& reader, Plan& plan) {
  constexpr std::string_view kModes = "an unsigned integer: 0 (whole tensors), 1 (the first sample_num elements)";
  constexpr std::string_view kNumbers = "an unsigned integer, at least 1";
  if (const auto mode = reader.number32(keys::sample_mode, kModes)) {
    if (*mode > 1) reader.refuse(*reader.find(keys::sample_mode), kModes);
    plan.sample_mode = *mode;
  }
  if (plan.sample_mode != 1) return;  // sample_num is then not read: anything passes
  if (const auto count = reader.number32(keys::sample_num, kNumbers)) {
    if (*count < 1) reader.refuse(*reader.find(keys::sample_num), kNumbers);
    plan.sample_num = *count;
  }
}

void read_e2e(const JsonValue& e2e, Plan& plan, Diagnostics& diagnostics) {
  constexpr std::array<std::string_view, 2> kPlaces = {"host", "device"};
  constexpr std::array<std::string_view, 2> kPrecisions = {"high", "low"};
  ObjectReader reader(e2e, keys::e2e_dump_settings, diagnostics);
  if (plan.e2e && plan.sonde.rules <= Release::v2_3) {
    for (const std::string_view key : {keys::enable, keys::trans_flag})
      reader.need(key, "true, false (without quotes)");
  }
  plan.enable = reader.boolean(keys::enable).value_or(plan.enable);
  plan.trans_flag = reader.boolean(keys::trans_flag).value_or(plan.trans_flag);
  if (const auto place = reader.word(keys::stat_calc_mode, kPlaces)) plan.stat_calc_mode = kPlaces[*place];
  if (const auto precision = reader.word(keys::device_stat_precision_mode, kPrecisions)) {
    plan.device_stat_precision_mode = kPrecisions[*precision];
  }
  read_sampling(reader, plan);
  plan.save_kernel_args = reader.boolean(keys::save_kernel_args).value_or(plan.save_kernel_args);
}

// ---- effects of keys on each other

// The two objects, for messages about keys in either.
struct Objects {
  ObjectReader common;
  ObjectReader e2e;
};

void adjust_for_debug_modes(Objects& objects, Plan& plan) {
  const auto warn = [](ObjectReader& reader, std::string_view key, std::string message) {
    if (const JsonMember* member = reader.find(key)) reader.warning(*member, std::move(message));
  };
  const bool newest = plan.sonde.rules == Release::v2_7;
  if (newest && plan.op_debug_mode != 0 && plan.dump_mode != DumpMode::all) {
    warn(objects.common, keys::dump_mode,
         fmt::format("op_debug_mode {} examines every operator, so it becomes 0", plan.op_debug_mode));
    plan.dump_mode = DumpMode::all;
  }
  if (newest && plan.op_debug_mode == 3 && plan.input_output != Sides::both) {
    warn(objects.common, keys::input_output, "op_debug_mode 3 keeps inputs and outputs, so it becomes 0");
    plan.input_output = Sides::both;
  }
  if (plan.op_debug_mode == 4 && !plan.iteration.is_all()) {
    warn(objects.common, keys::iteration, "op_debug_mode 4 watches every iteration, so it becomes \"all\"");
    plan.iteration = StepSet::all();
  }
  if (newest && plan.op_debug_mode == 4 && plan.sample_mode != 0) {
    warn(objects.e2e, keys::sample_mode, "op_debug_mode 4 saves whole tensors, so it becomes 0");
    plan.sample_mode = 0;
  }
}

void adjust_statistics(Objects& objects, Plan& plan, Diagnostics& diagnostics) {
  const bool on_device = plan.stat_calc_mode == "device" && !plan.wants_tensors();
  plan.low_precision = on_device && plan.device_stat_precision_mode == "low";
  if (plan.stat_calc_mode == "device" && plan.wants_tensors()) {
    objects.e2e.warning(*objects.e2e.find(keys::stat_calc_mode),
                        "saved_data \"tensor\" and \"full\" need the tensors on the host, so it becomes \"host\"");
    plan.stat_calc_mode = "host";
  }
  plan.device_statistics = on_device || objects.e2e.find(keys::stat_calc_mode) == nullptr;
  const JsonMember* categories = objects.common.find(keys::statistic_category);
  if (categories == nullptr) return;
  read_statistic_category(*categories, objects.common.path_of(keys::statistic_category), plan, diagnostics);
}

// Applies the differences between the requested release and the newest.
void follow_release(Objects& objects, Plan& plan) {
  const ReleaseInfo& release = info(plan.sonde.version);
  if (const auto columns = release.columns; !columns.empty()) {
    const JsonMember* member = objects.common.find(keys::statistic_category);
    if (member != nullptr && plan.wants_statistics()) {
      objects.common.warning(*member, fmt::format("not used: MindSpore {} does not know it, and the columns of layout "
                                                  "\"{}\" are always the same",
                                                  release.name, info(plan.sonde.layout).name));
    }
    plan.statistic_category.assign(columns.begin(), columns.end());
  }
  const bool selects_nothing =
      plan.dump_mode == DumpMode::kernels && plan.kernels.empty() && !plan.empty_kernels_select_all();
  if (const JsonMember* kernels = objects.common.find(keys::kernels); selects_nothing && kernels != nullptr) {
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

bool is_this_file(const char* name, const Plan& plan) {
  if (name == nullptr || *name == '\0' || plan.source.empty()) return false;
  std::error_code ignored;
  return plan.source == name || std::filesystem::equivalent(plan.source, name, ignored);
}

// Where the dump goes when sonde_settings does not name a layout: docs/compatibility.md, "Which tree".
void choose_layout(bool named, const JsonValue& root, const Diagnostics& diagnostics, Plan& plan) {
  if (plan.e2e) return;
  const auto variable = [&](const char* name) { return diagnostics.is_of_a_record() ? nullptr : std::getenv(name); };
  // Among the asynchronous dumps of 2.3 only this one supports exceptions.
  const JsonMember* common = root.find(keys::common_dump_settings);
  const JsonMember* debug = common != nullptr ? common->value.find(keys::op_debug_mode) : nullptr;
  const bool exceptions =
      debug != nullptr && debug->value.is(JsonValue::Kind::unsigned_integer) && debug->value.number == 4;
  const bool acl_dump = is_this_file(variable("MS_ACL_DUMP_CFG_PATH"), plan);
  const char* ge_dump = variable("ENABLE_MS_GE_DUMP");
  const bool wants_ge = ge_dump != nullptr && std::string_view(ge_dump) == "1";
  SondeSettings& sonde = plan.sonde;
  if (!named) {
    if (!acl_dump && !wants_ge) return;
    sonde.layout = wants_ge ? LayoutKind::ge : LayoutKind::o2;
    sonde.version = Release::v2_5;
  } else if (sonde.version == Release::v2_3) {
    sonde.layout = acl_dump || exceptions ? LayoutKind::o2 : LayoutKind::ge;
  } else if (sonde.version > Release::v2_3) {
    sonde.layout = wants_ge ? LayoutKind::ge : LayoutKind::o2;
  }
}

void read_objects(const JsonValue& common, const JsonValue& e2e, const Mode& mode, Plan& plan,
                  Diagnostics& diagnostics) {
  read_e2e(e2e, plan, diagnostics);
  read_common(common, mode, plan, diagnostics);
  Objects objects{{common, keys::common_dump_settings, diagnostics}, {e2e, keys::e2e_dump_settings, diagnostics}};
  adjust_for_debug_modes(objects, plan);
  adjust_statistics(objects, plan, diagnostics);
  follow_release(objects, plan);
}

void warn_of_e2e(const JsonMember* e2e, const Mode& mode, const Plan& plan, Diagnostics& diagnostics) {
  if (e2e != nullptr && !e2e->value.is(JsonValue::Kind::object)) {
    diagnostics.warning(e2e->value.line, std::string(keys::e2e_dump_settings),
                        fmt::format("found {}; read as {{}}, as MindSpore does", spelled(e2e->value)));
  }
  if (e2e != nullptr) return;
  const LayoutInfo& layout = info(plan.sonde.layout);
  const bool is_newest = layout.kind == LayoutKind::mindspore_2_7 && !mode.named;
  diagnostics.warning(0, std::string(keys::e2e_dump_settings),
                      is_newest ? "missing; the dump is written as rank_N/... anyway, as MindSpore does on a CPU, in "
                                  "npy files unless file_format is bin; \"sonde_settings\": {\"version\": \"2.0\"}, "
                                  "\"2.3\" or \"2.5\" writes the asynchronous dump of that release"
                                : fmt::format("missing: an asynchronous dump; its layout is \"{}\"", layout.name));
}

// The object that a file must have, or null.
const JsonValue* common_of(const JsonValue& root, Diagnostics& diagnostics) {
  constexpr std::string_view kKeys = "dump_mode, path, net_name, iteration, input_output, kernels, support_device";
  const JsonMember* common = root.find(keys::common_dump_settings);
  if (common == nullptr) {
    diagnostics.error(root.line, std::string(keys::common_dump_settings),
                      fmt::format("missing; needed: an object with {}", kKeys));
    return nullptr;
  }
  if (common->value.is(JsonValue::Kind::object)) return &common->value;
  diagnostics.error(common->value.line, std::string(keys::common_dump_settings),
                    fmt::format("found {}; allowed: an object", spelled(common->value)));
  return nullptr;
}

// MindSpore 2.0 takes any value of op_debug_mode where the dump is synchronous.
void leave_out_op_debug_mode(JsonValue& common, Diagnostics& diagnostics) {
  const JsonMember* debug = common.find(keys::op_debug_mode);
  if (debug == nullptr) return;
  diagnostics.warning(debug->line, fmt::format("{}.op_debug_mode", keys::common_dump_settings),
                      "not read: MindSpore 2.0 does not look for overflow in a synchronous dump");
  std::erase_if(common.members, [](const JsonMember& member) { return member.key == "op_debug_mode"; });
}

}  // namespace

void read_mindspore(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics) {
  plan.dialect = plan.sonde.rules == Release::v1_3 ? "mindspore-1.3" : "mindspore-2.x";
  const JsonMember* e2e = root.find(keys::e2e_dump_settings);
  plan.e2e = e2e != nullptr;
  Mode mode{plan.sonde.rules, own.version};
  warn_of_unknown_keys(root, "", diagnostics);
  if (!own.layout) choose_layout(own.version, root, diagnostics, plan);

  const JsonValue& e2e_value = e2e != nullptr ? e2e->value : empty_object();
  warn_of_unknown_keys(e2e_value, keys::e2e_dump_settings, diagnostics);
  warn_of_e2e(e2e, mode, plan, diagnostics);
  const JsonMember* enable = e2e_value.find(keys::enable);
  const bool synchronous = mode.rules > Release::v2_3 ? plan.e2e : enable != nullptr && enable->value.boolean;
  mode.asynchronous = !synchronous;

  const JsonValue* common = common_of(root, diagnostics);
  if (common == nullptr) return read_e2e(e2e_value, plan, diagnostics);
  warn_of_unknown_keys(*common, keys::common_dump_settings, diagnostics);
  JsonValue common_then = as_read_then(*common, keys::common_dump_settings, plan, diagnostics);
  if (mode.rules == Release::v2_0 && synchronous) leave_out_op_debug_mode(common_then, diagnostics);
  read_objects(common_then, as_read_then(e2e_value, keys::e2e_dump_settings, plan, diagnostics), mode, plan,
               diagnostics);
}

}  // namespace sonde
