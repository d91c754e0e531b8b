// The questions of the analyses (sonde/findings.h).
// Made from contract/ by tools/contract.py: a change here is lost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sonde/tolerances.h"

namespace sonde {

// The part of a dump that a question is about.
struct Part {
  // steps to include, as 3, 0-5 or 1|4 (default: all)
  std::string step;
  // 0 training, 1 and 2 without gradients (default: all)
  std::optional<std::uint32_t> graph;
  // number of the process (default: all)
  std::optional<std::uint32_t> rank;
};

// The question of compare.
struct CompareQuestion : Part, Tolerances {
  // JSON or CSV that says which golden op belongs to which of TARGET
  std::filesystem::path mapping;
  // steps of GOLDEN, if others than --step: the first is compared with the first (one dump may be both)
  std::string golden_step;
  // graph of GOLDEN, if another one than --graph
  std::optional<std::uint32_t> golden_graph;
  // number of threads (default: one for each CPU); does not affect the result
  std::uint64_t threads = 0;
};

// The question of convert.
struct ConvertQuestion {
  // the format the tensors are put into: NCHW, NHWC, ND, FRACTAL_Z, …
  std::string format;
  // their real shape, where the file's own is not to be used: 1,3,224,224
  std::vector<std::int64_t> shape;
  // only this input
  std::optional<std::uint32_t> input;
  // only this output
  std::optional<std::uint32_t> output;
  // npy, bin (the elements alone), msnpy (MindSpore's names) or pt (torch.load)
  std::string type = "npy";
};

// The question of first-bad.
struct FirstBadQuestion : Part {
  // do not look for the norm that grew first
  bool no_trend = false;
  // threads that read files; 0: one for each CPU
  std::uint64_t threads = 0;
};

// The question of watch.
struct WatchQuestion : Part {
  // a condition and its parameters, as tensor_overflow or tensor_too_large:abs_mean_gt=10; repeatable
  std::vector<std::string> conditions;
  // the set that MindSpore's debugger recommends
  bool recommended = false;
  // ops whose full name holds a match of this regular expression
  std::string op;
  // ops of this type, case ignored
  std::string type;
  // ops called from such a line, as train.py:49, or with this code in it
  std::string source;
  // which tensors of them: output, input or both (default: output)
  std::string side = "output";
};

}  // namespace sonde
