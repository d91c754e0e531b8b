// Totals over the ops of a step, for verbs that only count.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_set>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

// A file on disk, whatever its names.
struct DiskFile {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  friend bool operator==(const DiskFile& a, const DiskFile& b) { return a.device == b.device && a.inode == b.inode; }
};
struct DiskFileHash {
  std::size_t operator()(const DiskFile& file) const { return file.inode * 0x9E3779B97F4A7C15ULL ^ file.device; }
};
using DiskFiles = std::unordered_set<DiskFile, DiskFileHash>;

// Counts one step after the other.
class StepCounter {
 public:
  // `ops`: the ops to count, from one step of the rank. `new_bytes` leaves out the files of earlier calls.
  StepSum count(const CatalogRank& rank, const std::vector<CatalogOp*>& ops);
  StepSum count(const CatalogRank& rank, const std::vector<CatalogOp>& ops);

 private:
  DiskFiles seen_;
};

struct StepFacts {
  StepSum sum;
  StepHealth health;
};
// By rank and step. Looks at every file, on all cores.
std::vector<std::vector<StepFacts>> step_facts(const Catalog& catalog);

}  // namespace sonde
