// Verify: lists complete and missing parts of a dump, with reasons. Changes nothing (complete_dump.h does).
//
//   Result<VerifyReport> report = verify_dump("/tmp/dump");
//   for (const VerifyIssue& issue : report->issues) ...
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

enum class IssueKind : std::uint8_t {
  damaged,     // its content is not the expected one
  missing,     // it is expected but does not exist
  unentered,   // it exists, but not in the journal
  torn,        // its last row or entry is incomplete
  leftover,    // a killed run left it behind; it is not used
  permission,  // others may write it
  cut_off,     // a run was killed, or stopped by an error: its files are complete until then
  recording,   // a run writes here at this moment
  unreadable,  // it could not be checked
};
std::string_view word_of(IssueKind kind);

struct VerifyIssue {
  IssueKind kind = IssueKind::damaged;
  std::optional<std::uint32_t> rank;
  std::optional<StepId> step;
  std::filesystem::path path;
  std::string message;

  // True for an error; false for a note.
  bool is_finding() const {
    return kind != IssueKind::cut_off && kind != IssueKind::recording && kind != IssueKind::unreadable;
  }
};

struct VerifyStep {
  StepId id;
  std::size_t run = 0;
  bool ended = false;
  std::uint64_t ops = 0;
  std::uint64_t files = 0, missing = 0, damaged = 0;  // of tensors, by name
  std::uint64_t rows = 0, rows_missing = 0;           // of statistic.csv
};

struct VerifyRank {
  std::uint32_t rank = 0;
  std::string dump;
  std::filesystem::path directory;
  bool has_journal = false;
  std::vector<VerifyStep> steps;  // in the order of the run
};

struct VerifyReport {
  std::vector<VerifyRank> ranks;
  std::vector<VerifyIssue> issues;
  std::uint64_t entries = 0;           // records of journals
  std::uint64_t files = 0, bytes = 0;  // of tensors; files with several names count once
  std::uint64_t rows = 0;
};

struct VerifyOptions {
  // Also reads every tensor, and compares its values with the recorded statistics and hashes.
  bool hashes = false;
  std::optional<std::uint32_t> rank;
};

// Fails like open_catalog.
Result<VerifyReport> verify_dump(const std::filesystem::path& path, const VerifyOptions& options = {});

}  // namespace sonde
