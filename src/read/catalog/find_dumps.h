// Finds the dumps of every kind in a directory tree, by their contents.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "read/catalog/catalog_readers.h"

namespace sonde {

// A rank with a journal.
struct JournalPlace {
  std::filesystem::path directory, metadata;
};

struct Findings {
  std::vector<JournalPlace> journals;
  std::vector<std::filesystem::path> steps;  // with tensor files or tables of MindSpore or CANN, outside of `journals`
  std::vector<std::filesystem::path> constants;  // directories of that name, of a graph
  std::vector<std::filesystem::path> msprobe;    // with a dump.json or a debug.json
  std::vector<std::filesystem::path> loose;      // with tensors in files of any other name
  std::vector<std::filesystem::path> summaries;  // of long runs
  std::vector<CatalogProblem> problems;
  std::size_t files = 0, directories = 0;
  std::string first;       // any file that was seen
  std::string unreadable;  // the first directory that could not be read

  bool empty() const {
    return journals.empty() && steps.empty() && msprobe.empty() && loose.empty() && summaries.empty();
  }
};

// Symbolic links to directories are not followed.
Findings find_dumps(const std::filesystem::path& root, bool trust_journals);

}  // namespace sonde
