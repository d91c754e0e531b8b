// What capture hands to the store: one record per op, with bytes that are safe from the host.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graph/attribute.h"
#include "graph/source_line.h"
#include "journal/block.h"
#include "sonde/step.h"
#include "sonde/tensor.h"
#include "stats/statistics.h"
#include "tensor/dims.h"
#include "tensor/format.h"

namespace sonde {

// Microseconds since the Unix epoch, as every time in a dump.
inline std::uint64_t now_us() {
  using namespace std::chrono;
  return static_cast<std::uint64_t>(duration_cast<microseconds>(system_clock::now().time_since_epoch()).count());
}

struct RunInfo {
  std::uint32_t rank = 0, world_size = 1;
  std::uint32_t device = 0;  // local rank
  std::string host;          // "torch 2.13.0+cpu, CPython 3.11.7"
  std::string command;       // the program's arguments, for people
  std::time_t started = 0;   // names a run's directory in the trees of GE and CANN; 0: now
  bool host_graphs = false;  // the host writes graphs, execution orders and histories itself: the store writes none
};

// A place in the user's program that runs an op. Interned: one site per (type, scope, line).
struct Site {
  std::uint32_t id = 0;  // from 1; 0 means "no site"
  Phase phase = Phase::forward;
  std::string op_type;             // `conv2d`
  std::string scope;               // `network-AlexNet/features/0-Conv2d`; empty outside any module
  bool flagged = false;            // dump_mode 2: set_dump was called for something around it
  std::string forward_op_type;     // backward: the op it differentiates; empty when unknown
  std::uint32_t forward_site = 0;  // backward: that op's site
  // Who called, innermost first: the op's own line, up to the program's. Backward ops carry their forward op's. Empty
  // when unknown.
  std::vector<SourceLine> trace;
};

// The text of a source that has no file of its own: a notebook's cell.
struct SourceText {
  std::string file, text;
};

// One op of the graph: a name that is stable from step to step. Owned by capture, lives as long as the session.
struct OpName {
  std::uint32_t id = 0;   // from 1
  std::string op_type;    // `conv2d`; `Parameter` for parameters, data and constants
  std::string full_name;  // `Default/network-AlexNet/0-Conv2d/conv2d-op0`; `features.0.weight`
};

inline constexpr std::uint64_t kNoSequence = ~0ULL;
// In place of an output's number: something that the op made inside and that is none of its results (a saved mask).
inline constexpr std::uint32_t kInnerSlot = ~0U;

// One slot of one op.
struct TensorRecord {
  bool is_input = false;
  // Position among the op's tensor arguments (lists flattened, None keeps its place) or results.
  std::uint32_t slot = 0;
  DType dtype = DType::undefined;
  Dims shape;
  // How the elements lie in the file. default_format: C order of the host's shape. Else (trans_flag false, a channels-last
  // tensor) as they lie in memory, and `shape` is that of the memory: N, H, W, C for nhwc.
  Format format = Format::default_format;
  // Equal numbers: the same bytes in the same shape and type. 0: nothing was read.
  std::uint64_t content = 0;
  // Of an input: the op it comes from in this dump, which wrote that memory last or has made this view of it since.
  std::uint64_t source = kNoSequence;
  std::uint32_t source_slot = 0;
  std::optional<double> constant;  // an input that is a number of the user's code
  // Id of the OpName of the parameter, gradient or state it is; 0: none.
  std::uint32_t tensor_name = 0;
  // Why there are no bytes (or, without statistics, nothing at all); static text. Null when all is there.
  const char* skipped = nullptr;
  bool wanted = true;  // the plan selects this slot; false: structure only
  bool has_statistics = false;
  Statistics statistics;
  std::string md5, sha1;  // hex, when the plan asks for them
  // Tensor mode: a copy in C order, with the first wanted appearance of `content` and with no other.
  BlockPtr bytes;
  std::uint64_t bytes_read = 0;    // from the host's memory, for this record; 0 when its content was known
  std::uint64_t timestamp_us = 0;  // since the Unix epoch; names the file
};

enum class RecordKind : std::uint8_t { op = 0, parameter = 1, step_begin = 2, step_end = 3, note = 4 };

// Records carry contiguous sequence numbers, taken when the op starts. They may be pushed in another order.
struct Record {
  RecordKind kind = RecordKind::op;
  std::uint64_t sequence = 0;
  StepId step;
  const OpName* op = nullptr;  // op, parameter
  std::uint32_t site = 0;
  std::uint16_t thread = 0;             // ordinal of the host's thread, 0 the first seen
  bool failed = false;                  // the op threw
  std::uint32_t attributes = 0;         // id of the Attributes it was called with; 0: none
  std::uint32_t task_id = 0;            // op: its place among the ops of its step, from 0
  bool overflowed = false;              // op_debug_mode 3: it is here because an output holds NaN or infinity
  std::uint64_t repeats = kNoSequence;  // watcher: the record whose container holds these very bytes; none come with it
  bool completes = false;               // more tensors of the op of this sequence, whose record was pushed before
  bool selected = false;                // op: the plan wants something of it, also where no tensor of that side exists
  const OpName* reader = nullptr;       // parameter: the op that read it first in the step; watcher: the watched op
  bool in_constants = false;            // parameter: its place is the graph's `constants`, not the step
  std::uint64_t timestamp_us = 0;       // when the op began
  std::vector<TensorRecord> tensors;    // inputs first, then outputs
  std::string note;                     // note: one line
};

}  // namespace sonde
