// Recorder: takes records from the host's threads and makes them a dump on disk, in the background.
//
// One background thread writes tensor files as they come, then appends journal, csv and order files in sequence order.
// Nothing touches the disk before the first step_begin; if the plan chooses operators by name, before the first chosen
// one: earlier steps are forgotten. After the first fatal error (no space, directory gone) it stops writing, keeps the
// files on disk readable, and reports once through `error()`.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "dump/journal/record.h"
#include "dump/journal/totals.h"
#include "dump/layout/layout.h"
#include "plan/config/plan.h"

namespace sonde {

class Ring;

class Recorder {
 public:
  // Checks that the dump directory can be made and written (and that no other live run uses it), without creating
  // anything that a run without records would leave behind. `held`: records wait in memory, until release() or
  // discard().
  static Result<std::unique_ptr<Recorder>> open(const Plan& plan, const RunInfo& run, bool held = false);
  ~Recorder();  // finish()

  // Records the waiting items, with `run`, which may have more facts by now.
  Status release(const Plan& plan, const RunInfo& run);
  // Forgets the waiting items, and ignores all later records.
  void discard();
  std::uint64_t held_bytes() const;  // of waiting tensors

  const Layout& layout() const;
  // The rank's, or, if another process has that one, the next free one; the first is known from the first record on.
  std::filesystem::path directory() const;
  BlockPool& blocks();

  // Any thread. True if hash() can take a tensor of so many bytes, and this is worth it.
  bool can_hash(std::uint64_t bytes) const;
  // The writer makes the hashes that the plan wants from `bytes`, a tensor in C order, together with those of others.
  // `only_here`: no record has the block too. The texts are for records that are pushed later.
  std::shared_ptr<HashTexts> hash(BlockPtr bytes, std::size_t item_bytes, bool only_here);

  // Any thread. Definitions must be made before a record names them; they are copied.
  void define(const Site& site);
  void define(const OpName& name);
  void define(const Attributes& attributes);
  void define(const SourceText& text);
  // An empty vector, which the writer has used before if possible, for the tensors of a record.
  std::vector<TensorRecord> spare_tensors();
  std::uint64_t next_sequence();  // the caller must push or skip every number
  void push(Record&& record);
  void skip(std::uint64_t sequence);
  void skip(std::uint64_t from, std::uint64_t to);  // [from, to)

  void note(std::string text);  // a line for the journal

  // Processor time of the thread that writes, so far.
  std::uint64_t writer_nanoseconds() const;

  // The ring that keeps the last steps; null if the plan has none.
  Ring* ring();
  const Ring* ring() const;
  // Writes what it holds; returns the number of steps when they are on disk. `why` is for people.
  std::uint64_t write_ring(const std::string& why);

  // Returns when every record pushed so far is on disk, or the error is known.
  void flush();
  Totals finish();  // flushes, closes the files, releases the directory; may be called again
  Totals totals() const;
  std::optional<Error> error() const;  // the first fatal one
  // In the child after fork(): forgets everything, touches nothing.
  void abandon();

 private:
  Recorder();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sonde
