// Receives the data from the replaced functions of MindSpore's dumper (interpose.cpp). MindSpore reports an
// operator after its kernel ran: its name, then one tensor after another, all of them still in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sonde/sonde.h"

namespace sonde_mindspore {

// Null until Sonde records: till then MindSpore's own functions run.
const struct sonde_api* engine();
// `run`: all but the rank, which MindSpore's paths give. `directory`: for make_directory(); empty: MindSpore's business.
void set_engine(const struct sonde_api* api, const sonde_run_info& run, const std::string& directory);
// That directory, for MindSpore to write into. It makes missing ones itself, but not behind a link.
void make_directory();

// Lives while CPUE2eDump::DumpCNodeData runs: everything that is reported meanwhile is of one operator.
class OpScope {
 public:
  OpScope(const void* node, std::uint32_t graph);
  ~OpScope();
  OpScope(const OpScope&) = delete;
  OpScope& operator=(const OpScope&) = delete;
};
// True if MindSpore is to go through this side of the operator now: before its kernel the inputs, after it the rest.
enum class Side { inputs, outputs };
bool is_due(Side side);

// True if inputs are to be read before the kernel runs. MindSpore's dumper reads them after it.
bool reads_before();
void set_reads_before(bool before);

// Lives around a kernel. Tensors that MindSpore's dumper reports before begin() are inputs of its operator, which stays
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
  bool failed_ = true;  // an exception on its way
};

// Lives while CPUE2eDump::DumpParametersData runs, the last thing that MindSpore does in a step.
class ParameterScope {
 public:
  ParameterScope();
  ~ParameterScope();
  ParameterScope(const ParameterScope&) = delete;
  ParameterScope& operator=(const ParameterScope&) = delete;
};

// True if MindSpore is to go through the tensors of the op (or the parameter) of this name, `Default/…/Conv2D-op0`.
// False also where nothing is under way: then the question is not for us, and `is_ours` says so.
bool wants(const std::string& op_name, bool& is_ours);

// A tensor. `path`: the file that MindSpore would write, without `.npy`, which says what it is:
// `{path}/rank_0/{net}/{graph}/{step}//{op_type}.{op_name}.0.0.{us}.{input|output}.{slot}.DefaultFormat.{DType}`.
// False: not ours.
bool take(const std::string& path, const void* data, std::size_t bytes, const std::vector<std::int64_t>& shape,
          int type_id);

bool wants_step(std::uint32_t step);
// True if the step that runs now is wanted. True also before MindSpore's dumper has said which it is: interpose.cpp.
bool runs_chosen_step();

}  // namespace sonde_mindspore
