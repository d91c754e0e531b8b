// The journal: an append-only file that lists the recorded data; everything else in a dump derives from it. Format v1:
// docs/format.md, "Journal". After a kill it is readable up to its last complete entry.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/journal/record.h"
#include "sonde/result.h"

namespace sonde {

// Builds entries in a buffer; the owner writes the buffer to the file with plain appends of complete entries.
class JournalWriter {
 public:
  // Writes the file's header and the first entry of a run: plan, host, versions, start time. Every run begins with
  // them, also in an existing file, so that a reader finds them behind the incomplete end of a killed run.
  void run(const std::string& json);
  void site(const Site& site);
  void op_name(const OpName& name);
  void attributes(const Attributes& attributes);
  void record(const Record& record);  // op, parameter, step_begin, step_end
  void note(const std::string& text);
  // Called only after the rename: this slot of that record is in `file` (path relative to the rank directory).
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
  std::string skipped;  // text; empty if the tensor was read
  std::string file;     // relative to the rank directory; empty if no file was completed
};
struct JournalRecord : RecordMeta {
  std::uint32_t op = 0;        // id; 0: none
  bool is_supplement = false;  // added later, by the name of its file: its inputs are not known
  std::vector<JournalTensor> tensors;
  std::string note;
};
// A file entry whose record, or whose slot of it, is missing.
struct JournalFile {
  std::uint64_t sequence = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
  std::string file;
};
struct JournalRun {
  std::string header_json;  // as given to run(); empty: it is lost
  std::string end_json;     // empty: the run did not finish
  std::vector<Site> sites;
  std::vector<OpName> op_names;
  std::vector<Attributes> attributes;
  std::vector<JournalRecord> records;
  std::vector<JournalFile> lone_files;
  std::uint64_t offset = 0;  // of its first byte in the file
};
// Bytes that do not form a complete entry. Reading continues at the next complete entry, or at the next run.
struct JournalGap {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  // True for the beginning of an entry or a header that breaks off at the end of the file or the run: a killed run
  // leaves such bytes, and a live one is appending them. False for damage.
  bool is_tail = false;
};
struct Journal {
  std::vector<JournalRun> runs;  // one per run that appended to this file
  std::vector<JournalGap> gaps;
  std::uint64_t torn_bytes = 0;         // sum of `gaps`
  std::uint64_t malformed_entries = 0;  // complete entries whose content does not fit their type; they are left out
};

// Receives each entry of the journal unchanged, in order; entries are not combined.
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

// Reads the present content; a run may continue to append. Fails with `corrupt` for a file without any header or entry,
// and `unsupported` for a version that this build does not know. Incomplete or damaged parts are reported in `gaps`.
Result<Journal> read_journal(const std::filesystem::path& file, JournalVisitor* visitor = nullptr);
Result<Journal> parse_journal(std::string_view bytes, const std::filesystem::path& name,
                              JournalVisitor* visitor = nullptr);

}  // namespace sonde
