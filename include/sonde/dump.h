// Dump: the content of a dump written by Sonde, MindSpore, CANN, TorchAir or msprobe.
//
//   Result<Dump> dump = Dump::open("/data/run7");
//   if (!dump) fail(dump.error().message);
//   DumpSelection selection;
//   selection.op = "conv2";                                      // a regular expression, searched in full names
//   for (const std::size_t index : *dump->select_tensors(selection)) {
//     const DumpTensor tensor = dump->tensor(index);             // the facts known without reading it
//     Result<DumpValues> values = dump->values(index);           // its file, mapped
//   }
//
// A Dump is a handle: copies share what was read. Texts and shapes that it hands out live as long as one of them. Functions
// may be called from several threads. An example: examples/cpp/largest.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sonde/dtype.h"
#include "sonde/export.h"
#include "sonde/file_source.h"
#include "sonde/known_statistics.h"
#include "sonde/result.h"
#include "sonde/tensor.h"
#include "sonde/tensor_meta.h"

namespace sonde {

// The version of this header. A library of another version refuses to open.
inline constexpr std::uint32_t kDumpApiVersion = 1;

// One step of one graph of one rank, in the order of the run.
struct DumpStep {
  std::uint32_t rank = 0, graph = 0;
  std::uint64_t step = 0;
  std::size_t first_op = 0, ops = 0;  // its ops: [first_op, first_op + ops) of Dump::op
  bool ended = false;                 // false: the run was cut off inside it
  std::string_view directory;         // relative to the rank's; empty: the file names give the step
};

struct DumpSource {
  std::string_view file, function;
  std::uint32_t line = 0;  // 0: unknown
};

// One operator of one step; or a parameter, input data or constant, which is one output with no operator behind it.
struct DumpOp {
  std::size_t index = 0, step = 0;
  std::size_t first_tensor = 0, tensors = 0;  // inputs first, by slot
  std::string_view op_name;                   // `Default/network-AlexNet/conv2-Conv2d/conv2d-op0`
  std::string_view op_type;                   // `conv2d`; `Parameter`
  std::string_view phase;                     // `forward`, `backward`, `optimizer`, `outside`, `recompute`
  DumpSource source;                          // the innermost line of the user's program
  bool is_parameter = false;
  bool failed = false;         // it threw
  std::uint64_t sequence = 0;  // order within its run; DumpTensor::source is one
  std::uint64_t timestamp_us = 0;
  std::uint64_t call_number = 0;  // of a collective: among the calls of its group, from 1; 0: unknown
};

// One slot of one operator.
struct DumpTensor : TensorMeta {
  std::size_t index = 0, op = 0;
  std::string_view parameter;    // name of the parameter, gradient or state it is; empty: none
  std::string_view key;          // the host's name of a slot that has no number: `attn_mask`; else empty
  std::string_view tensor_file;  // relative to the rank's directory; empty: no values
  std::string_view skipped;      // the reason why it was not read; empty if it was
  std::string_view md5, sha1;    // empty: the dump does not say
  std::string_view placement;    // how it is part of a tensor that several ranks share; empty: it is not a part
  bool has_statistics = false;   // in the dump itself; statistics() reads the file of one that has none
};

// The way of a tensor from the op that made it to one that read it.
struct DumpEdge {
  std::size_t from = 0, to = 0;  // ops
  std::uint32_t from_slot = 0, to_slot = 0;
  bool from_parameter = false;  // then no op made it, `from` means nothing, and `parameter` is its name
  std::string parameter;
};

// A file that could not be read, or only in part; the rest of the dump is still there.
struct DumpProblem {
  std::filesystem::path path;
  std::string message;
};

// A field that is not set selects everything.
struct DumpSelection {
  std::vector<std::uint32_t> ranks, graphs, slots;
  std::vector<std::uint64_t> steps;
  std::string op;      // a regular expression (RE2), searched in full names
  std::string type;    // an op type, case ignored
  std::string source;  // `train.py:29`, `train.py`, or any part of `{file}:{line}`; of the whole stack of an op
  std::optional<bool> inputs;
};

// A condition, as the offline debugger knows them (docs/watch.md): its id (`tensor_overflow`) or the name of its Python class
// (`TensorTooLarge`), its parameters, and the tensors to check.
struct DumpWatchpoint {
  std::string condition;
  std::vector<std::pair<std::string, double>> parameters;
  std::vector<std::size_t> tensors;
};

struct DumpWatchParameter {
  std::string_view name;
  double value = 0;
  std::optional<double> actual;  // the tensor's value; empty: nothing is compared with it
  bool hit = false;
  std::optional<double> at_least, at_most;  // where the value is not known, and these bounds of it decide
};

// A tensor that meets its condition, or, with `hit` false, one that could not be checked against it.
struct DumpHit {
  std::size_t watchpoint = 0, tensor = 0;
  bool hit = false;
  std::uint32_t error_code =
      0;  // bits: 1 NaN, 2 infinity, 4 no previous value, 8 too large, 16 no history, 32 no value
  std::vector<DumpWatchParameter> parameters;
  std::optional<std::uint64_t> previous_step;
};

struct DumpWatchGap {
  std::size_t watchpoint = 0, tensor = 0;
  std::string reason;
};

struct DumpWatchReport {
  std::vector<DumpHit> hits;       // by the time at which tensors were written
  std::vector<DumpWatchGap> gaps;  // tensors that were not judged
  std::vector<std::string> notes;
};

struct DumpWatchOptions {
  std::uint64_t most_bytes = 0;    // of a tensor and the one before it; 0: no limit
  bool error_on_no_value = false;  // bit 32 for tensors without values, instead of a gap
};

// The result for one file.
struct DumpConverted {
  std::vector<std::filesystem::path> written;
  std::vector<std::string> failed;  // tensors that could not be read or converted, each with the file's name
};

// The elements of one tensor: a view of its mapped file if the file has their order, else a copy.
class DumpValues {
 public:
  SONDE_EXPORT DType dtype() const;  // of the file: bfloat16 may have been written as float32
  SONDE_EXPORT TensorView view() const;
  // All elements in C order, rounded to float32; for types that C++ does not have. `out` holds view().elements().
  SONDE_EXPORT void copy_as_float32(float* out) const;

 private:
  friend class Dump;
  struct State;
  std::shared_ptr<const State> state_;
};

class Dump {
 public:
  // `path`: a dump, one rank's directory, or any directory inside one. Fails when it is not a dump; a file in it that
  // cannot be read is a problem. `only`: the ops to load; the others are not there. In a large dump with a saved index
  // (docs/catalog.md) they are found at once.
  static Result<Dump> open(const std::filesystem::path& path, const DumpSelection& only = {}) {
    return open_version(path, only, kDumpApiVersion);
  }

  // Files below `root` come from `source` when they are first read (sonde/file_source.h), for the rest of this process.
  SONDE_EXPORT static void add_file_source(const std::filesystem::path& root, FileSource source);

  SONDE_EXPORT const std::filesystem::path& path() const;
  SONDE_EXPORT std::vector<std::uint32_t> ranks() const;
  SONDE_EXPORT const std::filesystem::path& directory(
      std::uint32_t rank) const;  // paths of its files are relative to this
  SONDE_EXPORT std::span<const DumpProblem> problems() const;
  // Ranks that the dump lacks, and versions of Sonde that differ between them, a line each.
  SONDE_EXPORT std::vector<std::string> notes() const;

  SONDE_EXPORT std::size_t step_count() const;
  SONDE_EXPORT std::size_t op_count() const;
  SONDE_EXPORT std::size_t tensor_count() const;
  SONDE_EXPORT DumpStep step(std::size_t index) const;
  SONDE_EXPORT DumpOp op(std::size_t index) const;
  SONDE_EXPORT DumpTensor tensor(std::size_t index) const;

  // Indices, in the order of the run. Fails on an invalid pattern. Ops without a selected tensor are left out
  // where `inputs` or `slots` is set.
  SONDE_EXPORT Result<std::vector<std::size_t>> select_ops(const DumpSelection& selection) const;
  SONDE_EXPORT Result<std::vector<std::size_t>> select_tensors(const DumpSelection& selection) const;

  // The callers of the op: its own line first, up to the program's.
  SONDE_EXPORT std::vector<DumpSource> trace(std::size_t op) const;
  // Arguments that are not tensors, by name, as text: `stride`, `[1, 1]`.
  SONDE_EXPORT std::vector<std::pair<std::string, std::string>> attributes(std::size_t op) const;
  // One line of a source as it was when the dump was made; empty if the dump does not have it.
  SONDE_EXPORT std::string code(std::size_t op, std::string_view file, std::uint32_t line) const;
  // The data flow of one step, in the order of the readers.
  SONDE_EXPORT std::vector<DumpEdge> edges(std::size_t step) const;

  // The tensor with type and shape, from the header of its file where the dump itself does not say.
  SONDE_EXPORT Result<DumpTensor> look(std::size_t tensor) const;
  // As the dump has them; nothing is read. Empty: it has none.
  SONDE_EXPORT std::optional<KnownStatistics> known_statistics(std::size_t tensor) const;
  // The same, else measured, once, from its file. Fails with `not_found` when there is none, `unsupported` for complex.
  SONDE_EXPORT Result<KnownStatistics> statistics(std::size_t tensor) const;
  // Measures all of these that have a file and no statistics, several at a time. Returns those that cannot be read.
  SONDE_EXPORT std::vector<DumpProblem> measure(std::span<const std::size_t> tensors) const;
  SONDE_EXPORT Result<DumpValues> values(std::size_t tensor) const;

  // Writes the tensors of one of CANN's files beside it, in the host's format, under the names that MindSpore gives:
  // `{type}.{op}.{task}.{stream}.{time}.{input|output}.{slot}.NCHW.npy`. A format that has no NCHW stays as it is.
  SONDE_EXPORT static DumpConverted convert_to_host(const std::filesystem::path& file);

  // Checks all watchpoints on their tensors and reads each tensor once. Fails on an unknown condition.
  SONDE_EXPORT Result<DumpWatchReport> watch(std::span<const DumpWatchpoint> watchpoints,
                                             const DumpWatchOptions& options = {}) const;
  // Checks that the condition exists and takes these parameters.
  SONDE_EXPORT static Status check_condition(const std::string& condition,
                                             std::span<const std::pair<std::string, double>> parameters);
  // The meaning of DumpHit::error_code: a sentence for each bit.
  SONDE_EXPORT static std::vector<std::string_view> watch_errors(std::uint32_t error_code);

  // The members of `numbers` that a list such as "3", "0-5" or "1
  // 4" selects, as in the options of the command. Fails on a text that is not a list. `what` begins the message:
  // "--step".
  SONDE_EXPORT static Result<std::vector<std::uint64_t>> listed(std::string_view what, std::string_view list,
                                                                std::span<const std::uint64_t> numbers);
  // Whether a pattern such as "**/conv*" selects the op: by its full name, its type or, without a `/`, the last part of
  // its name.
  SONDE_EXPORT static bool pattern_selects(std::string_view pattern, std::string_view op_name,
                                           std::string_view op_type);

 private:
  friend class DumpAccess;  // analyses (sonde/findings.h)
  struct State;
  SONDE_EXPORT static Result<Dump> open_version(const std::filesystem::path& path, const DumpSelection& only,
                                                std::uint32_t version);
  explicit Dump(std::shared_ptr<State> state) : state_(std::move(state)) {}

  std::shared_ptr<State> state_;
};

}  // namespace sonde
