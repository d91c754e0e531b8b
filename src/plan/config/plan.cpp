// Reading a configuration file: its bytes, its dialect, its plan.
#include "plan/config/plan.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>

#include "contract/setting_keys.h"
#include "ground/files/files.h"
#include "plan/config/diagnostics.h"
#include "plan/config/dialect.h"
#include "plan/config/json.h"
#include "plan/config/nearest.h"

namespace sonde {
namespace {

std::string reason(int error) { return std::generic_category().message(error); }

}  // namespace

// At most one byte more than a configuration may have, so that a file of any size costs little.
Result<std::string> read_configuration_file(const std::filesystem::path& file) {
  const auto cannot = [](const std::string& why) {
    return Error{ErrorCode::io, "cannot read the configuration file: " + why};
  };
  if (file.empty()) return cannot("its name is empty");
  // O_NONBLOCK: opening a pipe nobody writes to would wait for ever.
  const Fd descriptor(::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!descriptor) return cannot(reason(errno));
  struct stat status = {};
  if (::fstat(descriptor.get(), &status) != 0) return cannot(reason(errno));
  if (S_ISDIR(status.st_mode)) return cannot("it is a directory");
  if (!S_ISREG(status.st_mode)) return cannot("it is not a regular file");
  const std::size_t most = JsonLimits{}.bytes;
  if (static_cast<std::uint64_t>(status.st_size) > most) {
    return cannot(fmt::format("it has {} bytes; a configuration file may have {}", status.st_size, most));
  }
  std::string text(most + 1, '\0');
  std::size_t filled = 0;
  while (filled < text.size()) {
    const ssize_t count = ::read(descriptor.get(), text.data() + filled, text.size() - filled);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return cannot(reason(errno));
    if (count == 0) break;
    filled += static_cast<std::size_t>(count);
  }
  text.resize(filled);
  text.shrink_to_fit();
  return text;
}

namespace {

bool has_keys_of_1_2(const JsonValue& object, std::string_view name) {
  return std::ranges::all_of(object.members, [&](const JsonMember& member) {
    const auto known = std::ranges::find_if(
        known_keys(), [&](const KnownKey& key) { return key.object == name && key.key == member.key; });
    return known == known_keys().end() || known->since == Release::v1_2;  // others are never read
  });
}

// MindSpore 1.2 wrote `iteration` as a number, and later releases refuse that; a file with a newer key is theirs.
bool is_mindspore_1_2(const JsonValue& root, const OwnSettings& own, const Plan& plan, Diagnostics& diagnostics) {
  if (own.version) return plan.sonde.version == Release::v1_2;
  const JsonValue& common = root.find(keys::common_dump_settings)->value;
  const JsonMember* iteration = common.find(keys::iteration);
  if (iteration == nullptr || !iteration->value.is(JsonValue::Kind::unsigned_integer)) return false;
  if (root.find(keys::async_dump_settings) != nullptr) return true;
  const JsonMember* e2e = root.find(keys::e2e_dump_settings);
  if (!has_keys_of_1_2(common, keys::common_dump_settings)) return false;
  if (e2e == nullptr || !has_keys_of_1_2(e2e->value, keys::e2e_dump_settings)) return false;
  diagnostics.warning(
      iteration->line, "common_dump_settings.iteration",
      fmt::format("found the number {}, and no key that is newer than MindSpore 1.2: the file is read "
                  "as 1.2 reads it; \"sonde_settings\": {{\"version\": \"2.7\"}} reads it as the newest",
                  spelled(iteration->value)));
  return true;
}

// The files of other programs that users take for a configuration.
std::string_view program_of(const JsonValue& root) {
  const auto has = [&](const char* key) { return root.find(key) != nullptr; };
  if (has("task") && has("data"))
    return "this is a dump of msprobe, not a configuration; `sonde ls` reads its directory";
  if (has("task") && (has(keys::dump_path) || has("level"))) {
    return "this is a configuration of msprobe (task, level); Sonde does not read it, only the dumps that msprobe "
           "writes";
  }
  if (has("train_batch_size") || has("zero_optimization")) return "this is a configuration of DeepSpeed";
  if (has("model_type") || has("architectures")) return "this is the configuration of a model";
  return {};
}

// A file without any key that Sonde knows, or that is close to one, has one error, and not one message for each key.
bool is_of_another_program(const JsonValue& root, Diagnostics& diagnostics) {
  constexpr std::string_view kExpected =
      "expected common_dump_settings (MindSpore), dump (acl.json), dump_config (TorchAir) or DumpSettings";
  const auto is_known = [](const JsonMember& member) {
    return std::ranges::any_of(known_keys(), [&](const KnownKey& known) {
      return known.key == member.key || (known.object.empty() && is_close(member.key, known.key));
    });
  };
  const std::string_view program = program_of(root);
  if (program.empty() && (root.members.empty() || std::ranges::any_of(root.members, is_known))) return false;
  std::string found;
  for (std::size_t i = 0; i < std::min<std::size_t>(root.members.size(), 3); ++i) {
    found += (i == 0 ? "" : ", ") + in_quotes(root.members[i].key);
  }
  if (root.members.size() > 3) found += ", …";
  diagnostics.error(
      root.line, keys::common_dump_settings,
      fmt::format("missing{}{}; found the keys {}; {}", program.empty() ? "" : ": ", program, found, kExpected));
  return true;
}

// A dialect is recognised by the object that only it has.
void read_dialect(const JsonValue& root, const OwnSettings& own, Plan& plan, Diagnostics& diagnostics) {
  if (root.find(keys::common_dump_settings) != nullptr) {
    const bool is_1_2 = is_mindspore_1_2(root, own, plan, diagnostics);
    return is_1_2 ? read_mindspore_1_2(root, own, plan, diagnostics) : read_mindspore(root, own, plan, diagnostics);
  }
  if (root.find("dump") != nullptr) return read_acl(root, own, plan, diagnostics);
  if (root.find("dump_config") != nullptr) return read_torchair(root, own, plan, diagnostics);
  if (root.find(keys::DumpSettings) != nullptr) return read_mindspore_1_0(root, own, plan, diagnostics);
  if (!diagnostics.is_of_a_record() && is_of_another_program(root, diagnostics)) return;
  read_mindspore(root, own, plan, diagnostics);  // reports a missing object
}

// Switches of the originals that no file has.
void read_environment(Plan& plan, Diagnostics& diagnostics) {
  const auto value_of = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string_view(value != nullptr ? value : "");
  };
  constexpr std::string_view kLines = "ENV_DUMP_IR_LINE_LEVEL", kUseless = "MINDSPORE_DUMP_IGNORE_USELESS_OUTPUT";
  if (const std::string_view level = value_of(kLines.data()); level == "0" || level == "1" || level == "2") {
    plan.source_lines = static_cast<SourceLines>(level[0] - '0');
  } else if (!level.empty()) {
    diagnostics.warning(0, std::string(kLines),
                        fmt::format("found {}; allowed: 0 (no source lines), 1 (the innermost one), 2 (all); all are "
                                    "written",
                                    in_quotes(level)));
  }
  if (const std::string_view ignore = value_of(kUseless.data()); !ignore.empty() && ignore != "0") {
    diagnostics.warning(0, std::string(kUseless),
                        fmt::format("found {}; not used: PyTorch's operators do not say which of their outputs they "
                                    "leave unused, so all are recorded, as with 0",
                                    in_quotes(ignore)));
  }
}

bool is_on(const char* variable) {
  const char* asked = std::getenv(variable);
  return asked != nullptr && std::string_view(asked) == "1";
}

void check_stop_after(Plan& plan, Diagnostics& diagnostics) {
  if (is_on("SONDE_STOP_AFTER")) plan.sonde.stop_after = true;  // `sonde run --stop-after`
  if (!plan.sonde.stop_after || plan.iteration.last()) return;
  diagnostics.warning(0, "sonde_settings.stop_after",
                      fmt::format("iteration \"{}\" names no last step: the program runs to its own end",
                                  plan.iteration.is_all() ? "all" : plan.iteration.text()));
}

void check_pack(const JsonValue& root, const Plan& plan, Diagnostics& diagnostics) {
  if (!plan.sonde.pack || plan.wants_tensors()) return;
  const JsonMember* settings = root.find(keys::sonde_settings);
  const JsonMember* pack = settings != nullptr ? settings->value.find(keys::pack) : nullptr;
  diagnostics.error(pack != nullptr ? pack->line : 0, "sonde_settings.pack",
                    "found true, and no tensors are saved that could be packed; leave it out, or set saved_data to "
                    "\"tensor\" or \"full\"");
}

// The ring keeps whole steps, and max_overhead leaves some out. These modes look for single operators.
void check_combinations(const Plan& plan, Diagnostics& diagnostics) {
  const std::string_view mode = plan.overflow_only()                    ? "op_debug_mode 3 (overflow)"
                                : plan.exception_only()                 ? "op_debug_mode 4 (exception)"
                                : plan.acl.scene == Scene::watcher      ? "dump_scene watcher"
                                : plan.saved_data == SavedData::graph   ? "saved_data graph"
                                : plan.saved_data == SavedData::summary ? "saved_data summary"
                                                                        : "";
  if (mode.empty()) return;
  const auto refuse = [&](const char* key) {
    diagnostics.error(0, key, fmt::format("cannot be combined with {}; leave one of the two out", mode));
  };
  if (plan.sonde.ring > 0) refuse("sonde_settings.ring");
  if (plan.saved_data == SavedData::summary && plan.sonde.stop_after) refuse("sonde_settings.stop_after");
  if (plan.sonde.max_overhead > 0 && plan.saved_data != SavedData::summary) refuse("sonde_settings.max_overhead");
}

// One rank writes what others leave to it: all must record the same tensors, each in a file of its own, in directories
// with their numbers.
void check_replicas(const Plan& plan, Diagnostics& diagnostics) {
  if (plan.sonde.replicas != Replicas::first) return;
  const LayoutKind layout = plan.sonde.layout;
  const bool has_ranks = layout >= LayoutKind::mindspore_2_0 && layout <= LayoutKind::mindspore_2_7;
  const std::string with = !plan.wants_tensors()                 ? "saved_data without tensors"
                           : plan.sonde.pack                     ? "sonde_settings.pack"
                           : plan.sonde.ring > 0                 ? "sonde_settings.ring"
                           : plan.sonde.max_overhead > 0         ? "sonde_settings.max_overhead"
                           : plan.overflow_only()                ? "op_debug_mode 3 (overflow)"
                           : plan.exception_only()               ? "op_debug_mode 4 (exception)"
                           : plan.file_format == FileFormat::bin ? "file_format \"bin\""
                           : !has_ranks                          ? fmt::format("layout {}", info(layout).name)
                                                                 : "";
  if (with.empty()) return;
  diagnostics.error(0, "sonde_settings.replicas",
                    fmt::format("\"first\" cannot be combined with {}; leave one of the two out", with));
}

void read_root(const JsonValue& root, Plan& plan, Diagnostics& diagnostics) {
  if (!root.is(JsonValue::Kind::object)) {
    diagnostics.error(root.line, "", fmt::format("found {} at the top of the file; allowed: an object", spelled(root)));
    return;
  }
  const OwnSettings own = read_sonde_settings(root, plan, diagnostics);
  read_dialect(root, own, plan, diagnostics);
  if (!diagnostics.is_of_a_record()) {
    read_environment(plan, diagnostics);
    if (is_on("SONDE_EVERY_DEVICE")) plan.every_device = true;  // `sonde run --out`: nobody has chosen local ranks
    check_stop_after(plan, diagnostics);
  }
  if (own.saved_data) plan.saved_data = *own.saved_data;
  check_pack(root, plan, diagnostics);
  if (diagnostics.is_of_a_record()) return;
  check_combinations(plan, diagnostics);
  check_replicas(plan, diagnostics);
}

// MindSpore looks at the text after the last dot of the resolved path, wherever that dot is.
void check_extension(const std::filesystem::path& file, Diagnostics& diagnostics) {
  std::error_code ignored;
  const std::filesystem::path resolved = std::filesystem::canonical(file, ignored);
  const std::string name = resolved.empty() ? file.string() : resolved.string();
  const std::size_t dot = name.rfind('.');
  if (dot != name.npos && name.substr(dot) == ".json") return;
  diagnostics.error(0, "",
                    dot == name.npos
                        ? std::string("the file's name has no ending; allowed: .json")
                        : fmt::format("the file's name ends in {}; allowed: .json", in_quotes(name.substr(dot))));
}

PlanResult parse(const std::string& text, const std::filesystem::path& name, Diagnostics& diagnostics) {
  Plan plan;
  plan.source = name;
  plan.source_text = text;
  if (text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF")) {
    diagnostics.error(1, "", "not valid JSON: the file is UTF-16; save it as UTF-8");
  } else if (const std::optional<JsonValue> root = parse_json(text, diagnostics)) {
    read_root(*root, plan, diagnostics);
  }
  PlanResult result;
  if (!diagnostics.has_errors()) result.plan = std::move(plan);
  result.diagnostics = diagnostics.take();
  return result;
}

}  // namespace

PlanResult read_plan(const std::filesystem::path& file) {
  Diagnostics diagnostics;
  const Result<std::string> text = read_configuration_file(file);
  if (!text) {
    diagnostics.error(0, "", text.error().message);
    return {std::nullopt, diagnostics.take()};
  }
  check_extension(file, diagnostics);
  return parse(*text, file, diagnostics);
}

PlanResult parse_plan(const std::string& text, const std::filesystem::path& name) {
  Diagnostics diagnostics;
  return parse(text, name, diagnostics);
}

std::optional<Plan> read_recorded_plan(const std::filesystem::path& file) {
  const Result<std::string> text = read_configuration_file(file);
  return text ? parse_recorded_plan(*text, file) : std::nullopt;
}

std::optional<Plan> parse_recorded_plan(const std::string& text, const std::filesystem::path& name) {
  Diagnostics ignored = Diagnostics::of_a_record();
  const std::optional<JsonValue> root = parse_json(text, ignored);
  if (!root || !root->is(JsonValue::Kind::object)) return std::nullopt;
  Plan plan;
  plan.source = name;
  plan.source_text = text;
  read_root(*root, plan, ignored);
  return plan;
}

std::string text_of(const Diagnostic& diagnostic, const std::filesystem::path& file) {
  std::string text = file.string();
  if (diagnostic.line > 0) text += fmt::format(":{}", diagnostic.line);
  text += diagnostic.is_error ? ": error: " : ": warning: ";
  if (!diagnostic.key.empty()) text += diagnostic.key + ": ";
  return text + diagnostic.message;
}

}  // namespace sonde
