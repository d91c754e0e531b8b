// Receives the data from the replaced functions of MindSpore's dumper (interpose.cpp). MindSpore reports an operator
// after its kernel ran: its name, then one tensor after another, while their memory still exists.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sonde/sonde.h"

namespace sonde_mindspore {

// Null until Sonde records; until then MindSpore's own functions run.
const struct sonde_api* engine();
// `run`: everything except the rank, which MindSpore's paths contain. `directory`: for make_directory(); empty:
// MindSpore makes it.
void set_engine(const struct sonde_api* api, const sonde_run_info& run, const std::string& directory);
// Makes that directory, into which MindSpore writes. MindSpore makes missing ones itself, but not behind a link.
void make_directory();

// MindSpore's mode, from Python. In PyNative mode it runs operators one by one, which its dumper does not visit.
void set_pynative(bool pynative);
// True if a kernel that is in no graph may be the first of PyNative mode: then says_pynative() says so in the dump.
bool looks_for_pynative();
void says_pynative();
// Describes the run to the engine, if no tensor has.
void report_run();

// Lives while CPUE2eDump::DumpCNodeData runs: everything reported in this time belongs to one operator.
class OpScope {
 public:
  OpScope(const void* node, std::uint32_t graph);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;
};
// True if MindSpore must visit this side of the operator now: the inputs before its kernel, everything else after it.
enum class Side { inputs, outputs };
bool is_due(Side side);

// True if inputs must be read before the kernel runs. MindSpore's dumper reads them after it.
bool reads_before();
void set_reads_before(bool before);

// Lives around a kernel. Tensors that MindSpore's dumper reports before begin() are inputs of its operator. It stays
// open until the dumper reports its outputs, later on the same thread, or until its kernel has failed.
class KernelRun {
 public:
  KernelRun();
  ~KernelRun();
  KernelRun(const KernelRun&) = delete;
  KernelRun& operator=(const KernelRun&) = delete;

  void begin();
  void succeeded() { failed_ = false; }

 private:
  bool failed_ = true;  // an exception is on its way
};

// Lives while CPUE2eDump::DumpParametersData runs, the last thing that MindSpore does in a step.
class ParameterScope {
 public:
  ParameterScope();
  ~ParameterScope();
  ParameterScope(const ParameterScope&) = delete;
  ParameterScope& operator=(const ParameterScope&) = delete;
};

// True if MindSpore must visit the tensors of the op (or the parameter) of this name, `Default/…/Conv2D-op0`. Also
// false if no report is open; `is_ours` then says that MindSpore's own answer counts.
bool wants(const std::string& op_name, bool& is_ours);

// Reports a tensor. `path`: the file that MindSpore would write, without `.npy`; it identifies the tensor:
// `{path}/rank_0/{net}/{graph}/{step}//{op_type}.{op_name}.0.0.{us}.{input|output}.{slot}.DefaultFormat.{DType}`.
// False: the file is MindSpore's.
bool take(const std::string& path, const void* data, std::size_t bytes, const std::vector<std::int64_t>& shape,
          int type_id);

bool wants_step(std::uint32_t step);
// True if the current step is recorded. Also true before MindSpore's dumper has reported the step: interpose.cpp.
bool runs_chosen_step();

}  // namespace sonde_mindspore
