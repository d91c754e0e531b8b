// Recording: the work of the recorder's background thread. The first failure ends it: files on disk stay readable, and
// all later records are dropped.
#pragma once

#include <optional>
#include <vector>

#include "dump/run_files/run_files.h"
#include "plan/config/plan.h"
#include "record/writer/hasher.h"
#include "record/writer/op_files.h"
#include "record/writer/recorder.h"
#include "record/writer/reorder.h"
#include "record/writer/run_directory.h"
#include "record/writer/spare_tensors.h"
#include "record/writer/tensor_writer.h"

namespace sonde {

// For one thread.
class Recording {
 public:
  // `spare` gets the vectors of records that are written; it outlives this object.
  // `hasher` makes the hashes of records; it outlives this object, too.
  Recording(const Plan& plan, const RunInfo& run, const Layout& layout, SpareTensors& spare, Hasher& hasher);

  void open();  // makes the directory, takes the lock
  void define(const Site& site);
  void define(const OpName& name);
  void define(const Attributes& attributes);
  void define(const SourceText& text);
  void add(Record&& record);                        // writes its tensors now, the rest when its turn comes
  void skip(std::uint64_t from, std::uint64_t to);  // sequence numbers [from, to)
  void count_dropped(std::uint64_t records, std::uint64_t bytes);  // that were never passed on
  void note(const std::string& text);
  void hash(bool at_once);  // makes some of the hashes that records wait for
  void flush_appends();
  void flush_all();  // also records that wait for a missing sequence number
  void close();

  void fail(Error error);
  bool has_unflushed() const;
  int owner() const;                                // descriptor of the lock, -1 without
  const Layout& layout() const { return layout_; }  // of the rank's directory, or of the next free one
  const Totals& totals();
  const std::optional<Error>& error() const { return error_; }

 private:
  void complete(Record&& record);
  void drop(Record& record);
  void attach(const std::vector<StoredFile>& stored);
  void append_ready(bool force);
  void flush_tensors();
  static bool has_hashes(const Record& record);
  void settle_hashes(Record& record);
  // `later`: its files that the journal gets after it.
  void append(Record&& record, const std::vector<StoredFile>& stored, const std::vector<StoredFile>& later = {});
  Status add_replicas(const Record& record, const std::vector<StoredFile>& stored);
  void count(const Record& record);
  Result<RunDirectory> take_directory();
  Status try_open();

  Plan plan_;
  RunInfo run_;
  Layout layout_;
  RunDirectory directory_;
  std::optional<TensorWriter> tensors_;
  std::optional<RunFiles> files_;
  Fd aside_;
  std::optional<AppendFile> replicas_;  // what other ranks need not write
  std::optional<OpFiles> op_files_;
  SpareTensors& spare_;
  Hasher& hasher_;
  Reorder reorder_;
  std::vector<StoredFile> stored_;
  Totals totals_;
  std::optional<Error> error_;
};

}  // namespace sonde
