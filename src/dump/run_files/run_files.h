// RunFiles: the files of a rank that grow with the run. Given records in sequence order, it appends
// journal, statistic.csv and histories; GraphFiles writes the files about graphs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dump/journal/record.h"
#include "dump/layout/layout.h"
#include "plan/config/plan.h"
#include "sonde/result.h"

namespace sonde {

// For one thread. Collects text in memory until flush(), which writes the journal first, and the files derived from it
// after. Once a write of the journal has failed, only notes and the last entry are still tried.
class RunFiles {
 public:
  // `run_json` becomes the journal's first entry. The directories exist (open_run_directory). `host_graphs`: the host
  // writes graphs, execution orders and histories.
  static Result<RunFiles> open(const Plan& plan, const Layout& layout, const std::filesystem::path& aside,
                               const std::string& run_json, bool host_graphs = false);
  RunFiles(RunFiles&&) noexcept;
  RunFiles& operator=(RunFiles&&) noexcept;
  ~RunFiles();

  void define(const Site& site);
  void define(const OpName& name);
  void define(const Attributes& attributes);
  void define(const SourceText& text);
  // In sequence order. `files`: the parts of the record that are on disk.
  Status append(const Record& record, const std::vector<StoredFile>& files);
  // A file that was completed after its record was appended.
  void append_file(const StoredFile& file);
  void append_note(const std::string& text);

  bool has_unflushed() const;
  Status flush();
  // Writes orders and histories of steps that did not end, the journal's last entry, and final modes. After a failure
  // only the journal's part is tried.
  Status finish(const std::string& end_json, bool failed);

  std::uint64_t rows() const;
  std::uint64_t row_bytes() const;  // of these rows of tables

 private:
  struct State;
  explicit RunFiles(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sonde
