// Directory: the operator of each file of a dump directory, as msaccucmp finds it from the names alone.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "guests/msaccucmp/outcome.h"

namespace sonde::msaccucmp {

enum class DumpKind {
  offline,   // containers of an NPU
  standard,  // a framework's model: `.pb`, `.npy`
  quant,     // a quantised framework's model: `.quant`, `.npy` with operators that quantise
};
std::string_view name_of(DumpKind kind);

// FFTS+ cuts an operator into slices with a file each; the mode says which part of the name is the slice's number.
enum class SliceMode { whole, automatic, manual };

struct DumpFile {
  std::filesystem::path path;
  std::string name;  // the real one, if the file's own name is a number that mapping.csv explains
};

// All files of one operator (one of its outputs, for golden files), the latest last.
struct OpFiles {
  std::string key;  // op name; `op name.output index` for golden files
  std::vector<DumpFile> files;
  SliceMode mode = SliceMode::whole;
  // The time of the latest file, in msaccucmp's place for it: the last field of an ordinary name. 0 if that is not 16
  // digits.
  std::uint64_t timestamp = 0;
  std::uint64_t moment = 0;  // the same, at any place in the name: orders the names without one
};

struct Directory {
  std::filesystem::path path;
  DumpKind kind = DumpKind::offline;
  bool quantised = false;  // the name of an operator says so
  bool has_npy = false;    // any file ends in .npy: its side has no addresses
  std::vector<OpFiles> ops;
  std::unordered_map<std::string, std::size_t> by_key;

  // The files of an operator by its real name: `/` and `.` become `_` in file names.
  const OpFiles* find(std::string_view op_name, std::optional<std::int64_t> output_index) const;
};

struct ScanOptions {
  bool keep_slices = false;  // -ffts
  bool with_rules = false;   // -f
};

// Reads the top level only. Files that match no pattern are reported to `warn` and skipped. In ascending order of file
// names, so that the same directory always gives the same result.
Outcome<Directory> scan_directory(const std::filesystem::path& path, const ScanOptions& options,
                                  const std::function<void(const std::string&)>& warn);

// --- names, for the tests and for code that finds files itself ---

// "add1" of `Add.add1.1.2.1700000000000001`; empty if it is not a name of an NPU's dump.
std::string_view npu_op_name(std::string_view name);
// "add1.0" of `add1.0.1700000000000001.npy` (`.pb`, `.quant`).
std::string_view golden_key(std::string_view name, std::string_view suffix);
// Removes `_lxslice<N>` and `_sgt_graph_<N>_` as the mode requires. Empty: the operator is left out.
std::string op_key(std::string_view op_name, const ScanOptions& options);
std::string without_slices(std::string_view name);
// "Conv2D"; "NaN" if it is not a name of an NPU's dump (a hashed name).
std::string op_type_of(const std::filesystem::path& file);

}  // namespace sonde::msaccucmp
