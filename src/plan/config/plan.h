// Plan: the settings of a recording, in one form for all dialects of configuration.
#pragma once

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "contract/plain_settings.h"
#include "ground/stats/statistics.h"
#include "sonde/result.h"

namespace sonde {

// `iteration`: "all", or tokens "3" and "0-5" joined by "|". Malformed tokens never match, as in MindSpore.
class StepSet {
 public:
  static StepSet all();
  static StepSet parse(std::string_view text);  // the characters are already validated
  bool contains(std::uint64_t iteration) const;
  bool is_all() const { return all_; }
  // The largest iteration in any token; nullopt for "all" or if no token can match.
  std::optional<std::uint64_t> last() const;
  const std::string& text() const { return text_; }

 private:
  bool all_ = false;
  std::string text_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;  // inclusive
};

enum class DumpMode : std::uint8_t { all = 0, kernels = 1, flagged = 2 };
enum class Sides : std::uint8_t { both = 0, inputs = 1, outputs = 2 };  // `input_output`
enum class SavedData : std::uint8_t { tensor, statistic, full, graph, summary };

// The MindSpore release whose names, numbers, columns and rules a dump follows; in order of age, for comparing with
// `<`.
enum class Release : std::uint8_t { v1_2, v1_3, v2_0, v2_3, v2_5, v2_7 };
struct ReleaseInfo {
  Release release;
  std::string_view name;  // "2.3", as in `sonde_settings.version`
  // The columns of statistic.csv if the release has no `statistic_category`; empty: the user's choice.
  std::span<const Category> columns;
};
std::span<const ReleaseInfo> releases();  // by age
const ReleaseInfo& info(Release release);
std::optional<Release> release_from_name(std::string_view name);

// The arrangement of directories and files of a dump. Differences: docs/format.md, "Other versions".
enum class LayoutKind : std::uint8_t {
  mindspore_1_2,
  mindspore_1_2_async,
  mindspore_2_0,
  mindspore_2_3,
  mindspore_2_5,
  mindspore_2_7,
  ge,
  o0,
  o2,
  acl,
  torchair,
};
struct LayoutInfo {
  LayoutKind kind;
  std::string_view name;   // "mindspore-2.3", as in `sonde_settings.layout`
  Release release;         // its names are the default if the plan has no version
  Release oldest, newest;  // the releases that had it
};
std::span<const LayoutInfo> layouts();
const LayoutInfo& info(LayoutKind kind);
std::optional<LayoutKind> layout_from_name(std::string_view name);
// The layout of a release for an ordinary dump (rank_N/…, 1.2: device_N/…).
LayoutKind layout_of(Release release);

enum class FileFormat : std::uint8_t { npy, bin };
// The number of source lines of an op in an `.ir` file (ENV_DUMP_IR_LINE_LEVEL).
enum class SourceLines : std::uint8_t { none, top, all };

// A slot of an op: `input0`, `output1`.
struct SlotName {
  bool is_input = false;
  std::uint32_t index = 0;
};
// CANN: `optype_blacklist`, `opname_blacklist`.
struct BlacklistEntry {
  std::string name;
  std::vector<SlotName> slots;
};
// CANN: `opname_range`, an inclusive interval in execution order.
struct OpRange {
  std::string begin, end;
};
// CANN: one entry of `dump_list`. Empty model_name: all models. Empty layer and opname_range: all ops of the model.
struct DumpListEntry {
  std::string model_name = {};
  std::vector<std::string> layer = {}, watcher_nodes = {};
  std::vector<BlacklistEntry> optype_blacklist = {}, opname_blacklist = {};
  std::vector<OpRange> opname_range = {};
  std::string layer_key = {};  // of the configuration, for messages; empty: `layer` of this entry
};
enum class Scene : std::uint8_t { none, watcher, exception_brief, exception_norm, exception_detail };

// Settings that exist only in CANN's acl.json and TorchAir's options.
struct AclSettings {
  bool in_use = false;        // the plan came from such a file: dump_list selects, not `kernels`
  bool single_ops = false;    // dump_op_switch: ops outside every module (with an empty dump_list: all ops)
  bool anywhere = false;      // dump_list selects outside every module as well (TorchAir compiles functions, too)
  bool quantised = false;     // the inputs of quantising operators are selected, whatever else is (quant_dumpable)
  Scene scene = Scene::none;  // exception scenes also set op_debug_mode 4; dump_debug sets op_debug_mode 3
  std::string dump_level = "all";
  std::vector<DumpListEntry> dump_list;

  bool is_exception_scene() const { return scene >= Scene::exception_brief; }
};

// Sonde's own settings: the object `sonde_settings`, which MindSpore ignores.
struct SondeSettings : PlainSettings {
  LayoutKind layout = LayoutKind::mindspore_2_7;
  Release version = Release::v2_7;  // for what the layout leaves open: an empty `kernels`, config.json's ms_version
  Release rules = Release::v2_7;    // the rules for reading the file: `version`, if given
  // MindSpore's own dumper reads inputs after the operator ran, when some are already overwritten. Other hosts always
  // read them before.
  bool inputs_after = false;
  // Of an engine that serves requests: only steps that work on one of these (is_meant()). Empty: all steps.
  std::vector<std::string> requests;
  int ring_signal = 0;  // asks for a write of the ring; 0: none. SIGTERM always does.
  // The time that recording may add to the run, as a part of the time without it; 0: no limit, everything is read.
  double max_overhead = 0;
};

struct Plan {
  std::filesystem::path source;  // the configuration file; empty if made in code
  std::string source_text;       // its bytes, copied to .dump_metadata/data_dump.json
  std::string dialect;           // "mindspore-2.x", …
  // The reason why a correct file records nothing ("dump_list is empty and …"). Empty: it may record something.
  std::string nothing;

  std::filesystem::path path;  // absolute root of the dump
  std::string net_name;
  DumpMode dump_mode = DumpMode::all;
  StepSet iteration = StepSet::all();
  Sides input_output = Sides::both;
  std::vector<std::string> kernels;  // entries as MindSpore sees them: quotes and spaces removed, blanks dropped
  bool every_device = false;         // the dialect has no support_device
  std::vector<std::uint64_t> support_device;
  std::uint64_t op_debug_mode = 0;           // 0, 3, 4 (1 and 2 become 3)
  FileFormat file_format = FileFormat::npy;  // bin: one container of all tensors of an op (docs/format.md)
  SavedData saved_data = SavedData::tensor;
  std::vector<Category> statistic_category = {Category::max, Category::min, Category::l2norm};
  std::uint64_t overflow_number = 0;
  std::uint64_t initial_iteration = 0;
  SourceLines source_lines = SourceLines::all;

  bool e2e = false;     // the object e2e_dump_settings exists
  bool enable = false;  // synchronous
  bool trans_flag = true;
  std::string stat_calc_mode = "host";
  std::string device_stat_precision_mode = "high";
  // Statistics of tensors in the memory of a device are computed there: without tensors, unless stat_calc_mode is "host".
  bool device_statistics = true;
  // stat_calc_mode "device", precision "low", no tensors: averages and norms in the tensor's own type.
  bool low_precision = false;
  std::uint64_t sample_mode = 0;
  std::uint64_t sample_num = 100;
  bool save_kernel_args = false;

  AclSettings acl;
  SondeSettings sonde;

  bool supports_device(std::uint64_t device) const {
    return every_device || std::find(support_device.begin(), support_device.end(), device) != support_device.end();
  }
  // MindSpore's synchronous dump: e2e_dump_settings with `enable`.
  bool synchronous() const { return e2e && enable; }
  // Under dump_mode 1 an empty `kernels` selects everything; up to MindSpore 2.3 it selects nothing.
  bool empty_kernels_select_all() const { return sonde.version > Release::v2_3; }
  // The number of the first step. MindSpore 1.2 increments its counter before it dumps.
  std::uint64_t first_step() const { return initial_iteration + (sonde.version == Release::v1_2 ? 1 : 0); }
  bool overflow_only() const { return op_debug_mode == 3; }
  bool exception_only() const { return op_debug_mode == 4; }
  bool searches() const { return overflow_only() || exception_only(); }  // the run decides which ops are written
  bool chooses_by_name() const { return dump_mode != DumpMode::all || acl.in_use; }
  bool flags_matter() const { return dump_mode == DumpMode::flagged || acl.in_use; }  // of set_dump()
  std::uint64_t ring_bytes() const { return sonde.ring > 0 ? sonde.ring_bytes : 0; }
  bool wants_tensors() const { return saved_data == SavedData::tensor || saved_data == SavedData::full; }
  bool wants(Category category) const {
    return wants_statistics() && std::ranges::count(statistic_category, category) > 0;
  }
  // Of tensors that several ranks have, too: it says whether they are equal.
  bool makes_md5() const { return wants(Category::md5) || sonde.replicas == Replicas::first; }
  bool wants_statistics() const { return saved_data == SavedData::statistic || saved_data == SavedData::full; }
};

// An error, or a remark, about a configuration file.
struct Diagnostic {
  bool is_error = true;
  std::size_t line = 0;  // 1-based; 0 for the file as a whole
  std::string key;       // "common_dump_settings.iteration"
  std::string message;   // the value found and the allowed ones
};

struct PlanResult {
  std::optional<Plan> plan;             // set if no diagnostic is an error
  std::vector<Diagnostic> diagnostics;  // all of them, in file order
};

// Reads, detects the dialect and parses. Never touches the dump directory. The relevant environment variable
// (MS_DIAGNOSTIC_DATA_PATH) is read.
PlanResult read_plan(const std::filesystem::path& file);
PlanResult parse_plan(const std::string& text, const std::filesystem::path& name);

// The plan of a dump, from its copy of the configuration. The copy is not validated: errors in it, or settings of a
// later Sonde, are skipped. Paths, environment variables and other files that it names are not accessed. Nullopt
// if the text is not a JSON object; a default plan if the object is not a configuration.
std::optional<Plan> read_recorded_plan(const std::filesystem::path& file);
std::optional<Plan> parse_recorded_plan(const std::string& text, const std::filesystem::path& name);

// "FILE:LINE: error: KEY: message", one per diagnostic.
std::string text_of(const Diagnostic& diagnostic, const std::filesystem::path& file);

}  // namespace sonde
