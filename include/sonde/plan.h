// Plan: what to record. One value, whatever dialect of configuration it came from.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sonde/result.h"
#include "sonde/statistics.h"

namespace sonde {

// `iteration`: "all", or tokens "3" and "0-5" joined by "|". Malformed tokens never match, as in MindSpore.
class IterationSet {
 public:
  static IterationSet all();
  static IterationSet parse(std::string_view text);  // the characters are already known to be legal
  bool contains(std::uint64_t iteration) const;
  bool is_all() const { return all_; }
  // The largest iteration any token names; nullopt for "all" or when no token can match.
  std::optional<std::uint64_t> last() const;
  const std::string& text() const { return text_; }

 private:
  bool all_ = false;
  std::string text_;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> ranges_;  // inclusive
};

enum class DumpMode : std::uint8_t { all = 0, kernels = 1, flagged = 2 };
enum class Sides : std::uint8_t { both = 0, inputs = 1, outputs = 2 };  // `input_output`
enum class SavedData : std::uint8_t { tensor, statistic, full, graph };
enum class WhenFull : std::uint8_t { wait, statistics, drop };
enum class StepRule : std::uint8_t { automatic, optimizer, forward, manual };

// The layouts that are written, by the MindSpore release whose names, numbers and files they have; in order of age, so
// `<` may be asked. What differs: docs/format.md, "Other versions".
enum class LayoutVersion : std::uint8_t { mindspore_2_0, mindspore_2_3, mindspore_2_5, mindspore_2_7 };
struct LayoutVersionInfo {
  LayoutVersion version;
  std::string_view layout;   // "mindspore-2.3", as in `sonde_settings.layout`
  std::string_view release;  // "2.3", as in `sonde_settings.version`
  // The columns of statistic.csv where the release has no `statistic_category`; empty: the user's.
  std::span<const Category> columns;
};
std::span<const LayoutVersionInfo> layout_versions();  // by age
const LayoutVersionInfo& info(LayoutVersion version);
// nullopt for a layout, or a release, that is not written.
std::optional<LayoutVersion> layout_version(std::string_view layout);
std::optional<LayoutVersion> layout_of_release(std::string_view release);

// Settings that are ours: the object `sonde_settings`, which MindSpore ignores.
struct SondeSettings {
  std::string layout = "mindspore-2.7";
  std::string version = "2.7";  // what the layout does not settle: an empty `kernels`, config.json's ms_version
  StepRule step = StepRule::automatic;
  std::uint64_t budget_bytes = 1ULL << 30;  // bytes of tensors in flight between the run and the disk
  WhenFull when_full = WhenFull::wait;
  bool reread = false;        // read every input again, even where its bytes are known (finds silent writes)
  bool raw_bfloat16 = false;  // write `<E2` as MindSpore 2.10 does, instead of float32
};

struct Plan {
  std::filesystem::path source;  // the configuration file; empty when made in code
  std::string source_text;       // its bytes, copied to .dump_metadata/data_dump.json
  std::string dialect;           // "mindspore-2.x", …

  std::filesystem::path path;  // absolute root of the dump
  std::string net_name;
  DumpMode dump_mode = DumpMode::all;
  IterationSet iteration = IterationSet::all();
  Sides input_output = Sides::both;
  std::vector<std::string> kernels;  // entries as the original sees them: quotes and spaces removed, blanks dropped
  std::vector<std::uint64_t> support_device;
  std::uint64_t op_debug_mode = 0;  // 0, 3, 4 (1 and 2 become 3)
  std::string file_format = "npy";  // MindSpore reads the key only where Sonde does not run; tensors are npy files
  SavedData saved_data = SavedData::tensor;
  std::vector<Category> statistic_category = {Category::max, Category::min, Category::l2norm};
  std::uint64_t overflow_number = 0;
  std::uint64_t initial_iteration = 0;

  bool e2e = false;     // the object e2e_dump_settings exists
  bool enable = false;  // synchronous
  bool trans_flag = true;
  std::string stat_calc_mode = "host";
  std::string device_stat_precision_mode = "high";
  std::uint64_t sample_mode = 0;
  std::uint64_t sample_num = 100;
  bool save_kernel_args = false;

  SondeSettings sonde;

  // Under dump_mode 1 an empty `kernels` selects everything; up to MindSpore 2.3 it selects nothing.
  bool empty_kernels_select_all() const { return sonde.version != "2.0" && sonde.version != "2.3"; }
  bool wants_tensors() const { return saved_data == SavedData::tensor || saved_data == SavedData::full; }
  bool wants_statistics() const { return saved_data == SavedData::statistic || saved_data == SavedData::full; }
};

// One thing wrong, or worth saying, in a configuration file.
struct Diagnostic {
  bool is_error = true;
  std::size_t line = 0;  // 1-based; 0 when the file as a whole is meant
  std::string key;       // "common_dump_settings.iteration"
  std::string message;   // what was found and what is allowed
};

struct PlanResult {
  std::optional<Plan> plan;             // set when no diagnostic is an error
  std::vector<Diagnostic> diagnostics;  // all of them, in file order
};

// Reads, detects the dialect and parses. Never touches the dump directory. `getenv` values that matter
// (MS_DIAGNOSTIC_DATA_PATH) are read from the environment.
PlanResult read_plan(const std::filesystem::path& file);
PlanResult parse_plan(const std::string& text, const std::filesystem::path& name);

// "FILE:LINE: error: KEY: message", one per diagnostic.
std::string text_of(const Diagnostic& diagnostic, const std::filesystem::path& file);
// The plan in plain words, several lines, for `sonde check`.
std::string describe(const Plan& plan);

}  // namespace sonde
