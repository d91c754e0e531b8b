// MindSpore 1.2 (`iteration` is a number, `async_dump_settings`) and before (`DumpSettings`).
#include <fmt/format.h>

#include <string>
#include <string_view>

#include "contract/setting_keys.h"
#include "plan/config/diagnostics.h"
#include "plan/config/dialect.h"
#include "plan/config/mindspore_keys.h"
#include "plan/config/object_reader.h"

namespace sonde {
namespace {

constexpr std::string_view kBoolean = "true, false (without quotes)";

// The object `key`, or null; a value that is not an object is an error.
const JsonValue* object_of(const JsonValue& root, std::string_view key, Diagnostics& diagnostics) {
  const JsonMember* member = root.find(key);
  if (member == nullptr) return nullptr;
  if (member->value.is(JsonValue::Kind::object)) return &member->value;
  diagnostics.error(member->value.line, std::string(key),
                    fmt::format("found {}; allowed: an object", spelled(member->value)));
  return nullptr;
}

bool needed_boolean(ObjectReader& reader, std::string_view key) {
  reader.need(key, kBoolean);
  return reader.boolean(key).value_or(false);
}

void choose_old_layout(LayoutKind layout, const OwnSettings& own, Plan& plan) {
  plan.sonde.rules = Release::v1_2;
  if (!own.layout) plan.sonde.layout = layout;
  if (!own.layout && !own.version) plan.sonde.version = Release::v1_2;
  const auto columns = info(plan.sonde.version).columns;
  if (!columns.empty()) plan.statistic_category.assign(columns.begin(), columns.end());
  if (plan.sonde.layout == LayoutKind::mindspore_1_2_async) plan.file_format = FileFormat::bin;
}

void warn_of_an_empty_selection(ObjectReader& reader, const Plan& plan) {
  const JsonMember* kernels = reader.find(keys::kernels);
  if (kernels == nullptr || plan.dump_mode != DumpMode::kernels || !plan.kernels.empty()) return;
  reader.warning(*kernels, "empty where operators are to be listed: nothing is selected");
}

void read_async(const JsonValue& async, Plan& plan, bool& enabled, Diagnostics& diagnostics) {
  constexpr std::string_view kModes = "an unsigned integer: 0 (off), 1, 2, 3 (overflow)";
  ObjectReader reader(async, keys::async_dump_settings, diagnostics);
  warn_of_unknown_keys(async, keys::async_dump_settings, diagnostics);
  enabled = needed_boolean(reader, keys::enable);
  reader.need(keys::op_debug_mode, kModes);
  const auto mode = reader.number32(keys::op_debug_mode, kModes);
  if (!mode) return;
  if (*mode > 3) return reader.refuse(*reader.find(keys::op_debug_mode), kModes);
  if (*mode == 1 || *mode == 2) {
    reader.warning(*reader.find(keys::op_debug_mode), fmt::format("found {}; read as 3 (overflow)", *mode));
  }
  plan.op_debug_mode = *mode == 0 ? 0 : 3;
}

}  // namespace

void read_mindspore_1_2(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics) {
  plan.dialect = "mindspore-1.2";
  plan.sonde.rules = Release::v1_2;
  const JsonValue* e2e = object_of(root, keys::e2e_dump_settings, diagnostics);
  const JsonValue* async = object_of(root, keys::async_dump_settings, diagnostics);
  bool async_enabled = false;
  plan.e2e = e2e != nullptr;
  if (e2e != nullptr) {
    warn_of_unknown_keys(*e2e, keys::e2e_dump_settings, diagnostics);
    const JsonValue then = as_read_then(*e2e, keys::e2e_dump_settings, plan, diagnostics);
    ObjectReader reader(then, keys::e2e_dump_settings, diagnostics);
    plan.enable = needed_boolean(reader, keys::enable);
    plan.trans_flag = needed_boolean(reader, keys::trans_flag);
  }
  if (async != nullptr) read_async(*async, plan, async_enabled, diagnostics);
  if (plan.enable && async_enabled) {
    diagnostics.warning(root.find(keys::async_dump_settings)->line, std::string(keys::async_dump_settings),
                        "not used: e2e_dump_settings is enabled too, and wins");
  }
  if (plan.enable) plan.op_debug_mode = 0;  // it is async_dump_settings' own
  choose_old_layout(plan.enable ? LayoutKind::mindspore_1_2 : LayoutKind::mindspore_1_2_async, own, plan);
  if (!plan.enable && !async_enabled) {
    plan.nothing = "neither e2e_dump_settings nor async_dump_settings is enabled";
    diagnostics.warning(root.line, "", plan.nothing + ": nothing is recorded, as in MindSpore 1.2");
  }

  const JsonValue* common = object_of(root, keys::common_dump_settings, diagnostics);
  if (common == nullptr) return;
  warn_of_unknown_keys(*common, keys::common_dump_settings, diagnostics);
  const JsonValue then = as_read_then(*common, keys::common_dump_settings, plan, diagnostics);
  ObjectReader reader(then, keys::common_dump_settings, diagnostics);
  read_dump_mode(reader, keys::dump_mode, plan);
  read_place(reader, then, plan, diagnostics);
  read_iteration_number(reader, plan);
  read_input_output(reader, plan);
  read_kernels_of(reader, plan, diagnostics);
  read_support_device(reader, plan, diagnostics);
  warn_of_an_empty_selection(reader, plan);
}

void read_mindspore_1_0(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics) {
  plan.dialect = "mindspore-1.0";
  plan.every_device = true;  // one file for each device
  choose_old_layout(LayoutKind::mindspore_1_2, own, plan);
  const JsonValue* settings = object_of(root, keys::DumpSettings, diagnostics);
  if (settings == nullptr) return;
  warn_of_unknown_keys(*settings, keys::DumpSettings, diagnostics);
  ObjectReader reader(*settings, keys::DumpSettings, diagnostics);
  plan.e2e = true;
  plan.enable = needed_boolean(reader, keys::enable);
  plan.trans_flag = needed_boolean(reader, keys::trans_flag);
  read_dump_mode(reader, keys::mode, plan);
  read_place(reader, *settings, plan, diagnostics);
  read_iteration_number(reader, plan);
  read_kernels_of(reader, plan, diagnostics);
  warn_of_an_empty_selection(reader, plan);
  if (!plan.enable && reader.find(keys::enable) != nullptr && !diagnostics.has_errors()) {
    plan.nothing = "DumpSettings.enable is false";
    diagnostics.warning(reader.find(keys::enable)->line, "DumpSettings.enable", "false: nothing is recorded");
  }
}

}  // namespace sonde
