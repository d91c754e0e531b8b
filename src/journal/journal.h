// The journal: an append-only file that says what was recorded; everything else in a dump derives
// from it. Format v1: docs/format.md, "Journal". Readable to its last complete entry after a kill.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "journal/record.h"
#include "sonde/result.h"

namespace sonde {

// Builds entries in a buffer; the owner writes the buffer to the file with plain appends of complete entries.
class JournalWriter {
 public:
  // The file's header and the first entry of a run: plan, host, versions, start time. Every run begins with it, also
  // where the file exists: a reader finds it behind the torn tail of a killed run.
  void run(const std::string& json);
  void site(const Site& site);
  void op_name(const OpName& name);
  void attributes(const Attributes& attributes);
  void record(const Record& record);  // op, parameter, step_begin, step_end
  void note(const std::string& text);
  // Only after the rename: this slot of that record is in `file` (path relative to the rank directory).
  void file(std::uint64_t sequence, bool is_input, std::uint32_t slot, const std::string& file);
  void end(const std::string& json);  // last entry of a run that finished: totals

  std::string& buffer() { return buffer_; }  // take and clear after writing

 private:
  void put_record(const RecordMeta& meta, std::uint32_t op, const std::string& note,
                  std::span<const TensorRecord> tensors);

  std::string buffer_;
};

// One slot as read back.
struct JournalTensor : TensorEntry {
  std::string skipped;  // text; empty when the tensor was read
  std::string file;     // relative to the rank directory; empty when no file was completed
};
struct JournalRecord : RecordMeta {
  std::uint32_t op = 0;        // id; 0: none
  bool is_supplement = false;  // entered later, by the name of its file: its inputs are not known
  std::vector<JournalTensor> tensors;
  std::string note;
};
// A file entry whose record, or whose slot of it, is not there.
struct JournalFile {
  std::uint64_t sequence = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
  std::string file;
};
struct JournalRun {
  std::string header_json;  // as given to run(); empty: lost
  std::string end_json;     // empty: the run did not finish
  std::vector<Site> sites;
  std::vector<OpName> op_names;
  std::vector<Attributes> attributes;
  std::vector<JournalRecord> records;
  std::vector<JournalFile> lone_files;
  std::uint64_t offset = 0;  // of its first byte in the file
};
// Bytes that are not a complete entry. Reading continues at the next complete entry, or the next run.
struct JournalGap {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  // The beginning of an entry or a header that breaks off where the file, or the run, ends: what a killed run leaves, or
  // what a live one is appending. Else damage.
  bool is_tail = false;
};
struct Journal {
  std::vector<JournalRun> runs;  // one per run that appended to this file
  std::vector<JournalGap> gaps;
  std::uint64_t torn_bytes = 0;         // sum of `gaps`
  std::uint64_t malformed_entries = 0;  // complete, but their content does not fit their type; left out
};

// Receives each entry of the journal unchanged, in order; entries are not joined.
class JournalVisitor {
 public:
  virtual ~JournalVisitor() = default;
  virtual void begin_run() = 0;
  virtual void header(const std::string& json) = 0;
  virtual void site(const Site& site) = 0;
  virtual void op_name(const OpName& name) = 0;
  virtual void attributes(const Attributes& attributes) = 0;
  virtual void record(const JournalRecord& record) = 0;
  virtual void end(const std::string& json) = 0;
};

// Reads what is there now; a run may go on appending. Fails with `corrupt` for a file in which no header and no entry is
// found and `unsupported` for a version this build does not know; a torn or damaged part is reported in `gaps`.
Result<Journal> read_journal(const std::filesystem::path& file, JournalVisitor* visitor = nullptr);
Result<Journal> parse_journal(std::string_view bytes, const std::filesystem::path& name,
                              JournalVisitor* visitor = nullptr);

}  // namespace sonde
