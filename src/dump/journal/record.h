// The data that capture gives to the writer: one record per op, with bytes that the host cannot change.
#pragma once

#include <cstdint>
#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dump/journal/block.h"
#include "dump/journal/late_reading.h"
#include "ground/model/attribute.h"
#include "ground/model/site.h"
#include "ground/stats/statistics.h"
#include "ground/tensor/format.h"
#include "sonde/step.h"
#include "sonde/tensor_meta.h"

namespace sonde {

struct RunInfo {
  std::uint32_t rank = 0, world_size = 1;
  std::uint32_t device = 0;  // local rank
  std::string host;          // "torch 2.13.0+cpu, CPython 3.11.7"
  std::string command;       // the program's arguments, for people
  std::time_t started = 0;   // names a run's directory in the trees of GE and CANN; 0: now
  bool host_graphs = false;  // the host writes graphs, execution orders and histories itself, so the writer does not
};

// Of a run's host: MindSpore writes graphs, execution orders and histories itself.
inline bool has_host_graphs(std::string_view host) { return host.starts_with("MindSpore"); }

// The facts about a tensor that are in its file name.
struct RecordedTensor : TensorMeta {
  // The order of the elements in the file. default_format: C order of the host's shape. Otherwise (trans_flag false, a
  // channels-last tensor) the order in memory, and `shape` follows it: N, H, W, C for nhwc.
  Format format = Format::default_format;
};

// The type of names that are not of operators: how tensors are distributed.
inline constexpr std::string_view kPlacementType = "Placement";

// One slot of one op, as in its journal entry.
struct TensorEntry : RecordedTensor {
  // Id of the OpName of the parameter, gradient or state it is; 0: none.
  std::uint32_t parameter = 0;
  // Id of the OpName, of the type kPlacementType, of the part of a distributed tensor that it is; 0: none.
  std::uint32_t placement = 0;
  bool has_statistics = false;
  Statistics statistics;
  std::string md5, sha1;  // hex, if the plan requests them

  TensorEntry& entry() { return *this; }
};

// The hashes of a content that the writer makes, for all records of it. Only the writer's thread reads and changes them.
struct HashTexts {
  std::string md5, sha1;
  bool done = false;
};

// A slot on its way to the journal and the files.
struct TensorRecord : TensorEntry {
  // Not `= default`: then emplace_back() would first set all its bytes to 0.
  TensorRecord() {}  // NOLINT(modernize-use-equals-default)
  // If the writer makes md5 and sha1: their place.
  std::shared_ptr<HashTexts> hashes;
  // On a device: its elements, which the host is still reading. Null when the record has all facts.
  std::shared_ptr<LateReading> late;
  // The reason why there are no bytes (or, without statistics, nothing at all); static text. Null when all is there.
  const char* skipped = nullptr;
  // Tensor mode: a copy in C order. Only the first requested appearance of `content` has it.
  BlockPtr bytes;
  std::uint64_t bytes_read = 0;  // from the host's memory, for this record; 0 if its content was known
};

enum class RecordKind : std::uint8_t { op = 0, parameter = 1, step_begin = 2, step_end = 3, note = 4 };

// The facts of a record that its journal entry contains unchanged.
struct RecordMeta {
  RecordKind kind = RecordKind::op;
  std::uint64_t sequence = 0;
  StepId step;
  std::uint32_t site = 0;
  std::uint16_t thread = 0;        // ordinal of the host's thread, 0 the first seen
  bool failed = false;             // the op threw
  bool completes = false;          // more tensors for an op whose record was pushed before, with this sequence
  std::uint32_t attributes = 0;    // id of the Attributes it was called with; 0: none
  std::uint64_t timestamp_us = 0;  // when the op began
  // Of a collective: the number of the call among those of its group, from 1; 0: unknown.
  std::uint64_t call_number = 0;

  RecordMeta& meta() { return *this; }
};

// The facts that decide the directory and names of a record's files.
struct NamedRecord : RecordMeta {
  const OpName* op = nullptr;      // op, parameter
  const OpName* reader = nullptr;  // parameter: the op that read it first in the step; watcher: the watched op
  std::uint32_t task_id = 0;       // op: its number among the ops of its step, from 0
  bool in_constants = false;       // parameter: its file is in the graph's `constants`, not in the step
};

// Records carry contiguous sequence numbers, taken when the op starts. They may be pushed in another order.
struct Record : NamedRecord {
  bool overflowed = false;  // op_debug_mode 3: it is recorded because an output holds NaN or infinity
  bool undecided = false;   // the same, but its outputs are still being read on a device
  bool selected = false;    // op: the plan selects something of it, even if no tensor of that side exists
  // watcher: the record whose container holds the same bytes; this record has none
  std::uint64_t repeats = kNoSequence;
  std::vector<TensorRecord> tensors;  // inputs first, then outputs
};

// The bytes of one slot, in a file of their own or in a pack.
struct StoredFile {
  std::uint64_t sequence = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
  std::string path;  // relative to the rank directory
};

}  // namespace sonde
