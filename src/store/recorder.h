// Recorder: takes records from the host's threads and makes them a dump on disk, behind the run's back.
//
// One background thread writes tensor files as they come, then appends journal, csv and order files
// in sequence order. Nothing touches the disk before the first step_begin; where the plan chooses operators by name, before
// the first that it chooses: steps before that are forgotten. After the first error
// that cannot be lived with (no space, directory gone) it stops writing, keeps what is on disk
// readable, and reports once through `error()`.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "sonde/plan.h"
#include "store/layout.h"
#include "store/record.h"

namespace sonde {

struct Totals {
  std::uint64_t steps = 0, ops = 0, tensors = 0, files = 0, rows = 0;
  std::uint64_t bytes_read = 0;     // of the host's tensors: what is known to be equal is read once
  std::uint64_t bytes_written = 0;  // tensor bytes that reached a file (links not counted), and rows of tables
  std::uint64_t bytes_dropped = 0;
  std::uint64_t records_dropped = 0;  // the disk could not follow, and the plan says not to wait for it
  bool nothing_chosen = false;        // of the ops that ran, by the names in the plan
};

class Recorder {
 public:
  // Checks that the dump directory can be made and written (and by nobody else's live run), without
  // creating anything that a run without records would leave behind.
  // `held`: what it is given waits in memory, until release() or discard().
  static Result<std::unique_ptr<Recorder>> open(const Plan& plan, const RunInfo& run, bool held = false);
  ~Recorder();  // finish()

  // What was held is recorded, as of `run`, of whom more may be known by now.
  Status release(const Plan& plan, const RunInfo& run);
  // What was held is forgotten, and all that still comes.
  void discard();
  std::uint64_t held_bytes() const;  // of tensors

  const Layout& layout() const;
  BlockPool& blocks();

  // Any thread. Definitions must be made before a record names them; they are kept by copy.
  void define(const Site& site);
  void define(const OpName& name);
  void define(const Attributes& attributes);
  void define(const SourceText& text);
  std::uint64_t next_sequence();  // every number taken must be pushed or skipped
  void push(Record&& record);
  void skip(std::uint64_t sequence);
  void skip(std::uint64_t from, std::uint64_t to);  // [from, to)

  // Every record pushed so far is on disk, or the error is known, when this returns.
  void flush();
  Totals finish();  // flush, close the files, release the directory; idempotent
  Totals totals() const;
  std::optional<Error> error() const;  // the first fatal one
  // After fork, in the child: forget everything, touch nothing.
  void abandon();

 private:
  Recorder();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sonde
