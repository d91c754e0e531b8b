// JournalReplay: writes the files of a run beside its tensors again, from its journal, into a separate directory, with
// the same code that wrote them first (run_files/run_files.h).
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "dump/journal/journal.h"
#include "dump/layout/layout.h"
#include "dump/run_files/run_files.h"
#include "read/catalog/catalog.h"

namespace sonde {

class JournalReplay : public JournalVisitor {
 public:
  // `scratch` exists and is on the same file system as the dump.
  JournalReplay(const CatalogRank& rank, std::filesystem::path scratch);

  void begin_run() override;
  void header(const std::string& json) override;
  void site(const Site& site) override;
  void op_name(const OpName& name) override;
  void attributes(const Attributes& attributes) override;
  void record(const JournalRecord& record) override;
  void end(const std::string& json) override;

  Status finish();  // of the last run; returns the first error
  // The replacement for the rank's own directory; empty if no run could be written again.
  const std::filesystem::path& directory() const { return directory_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void close(const std::string& end_json, bool failed);
  void add_source(const std::string& file);
  void keep(Status status);

  const CatalogRank& rank_;
  std::filesystem::path scratch_, directory_;
  std::optional<Layout> layout_;
  std::optional<RunFiles> files_;
  std::unordered_map<std::uint32_t, OpName> names_;
  std::map<std::uint32_t, std::uint32_t> next_task_;  // by graph
  std::set<std::string> sources_;
  std::vector<std::string> notes_;
  Status status_;
};

}  // namespace sonde
