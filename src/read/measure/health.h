// Health: the NaNs and infinities in a tensor, from any facts in the dump.
#pragma once

#include <optional>
#include <unordered_map>
#include <vector>

#include "ground/stats/statistics.h"
#include "read/catalog/catalog.h"
#include "sonde/result.h"

namespace sonde {

struct Health {
  bool known = false;
  bool nan = false, positive_inf = false, negative_inf = false;
  // Elements; 0 where only a maximum or minimum shows that there are some.
  NonFiniteCounts counts;

  bool inf() const { return positive_inf || negative_inf; }
  bool bad() const { return nan || inf(); }
  void add(const Health& other);
  friend bool operator==(const Health&, const Health&) = default;
};
Health health_of(const KnownStatistics& statistics);
// The facts about one tensor that the dump states; empty: its file must be read.
std::optional<Health> stated_health(const CatalogTensor& tensor);
StepHealth health_of(const CatalogStep& step);
// True if both may describe one tensor: tables of some versions count nothing.
bool alike(const Health& a, const Health& b);

// Uses statistics first and reads files only if there are none. Non-finite elements are found at memory speed, and then
// counted. One thread uses it; it uses all cores.
class HealthReader {
 public:
  // `threads` 0: as many as there are cores.
  explicit HealthReader(const CatalogRank& rank, unsigned threads = 0) : rank_(rank), threads_(threads) {}

  // Reads the missing data of these ops, in parallel.
  void prepare(const std::vector<CatalogOp>& ops);
  // The health of one tensor; reads its file if prepare() did not. Statistics of tensors that are not finite are kept
  // here.
  const Health& of(const CatalogTensor& tensor);

  // Files that could not be read: their tensors are unknown.
  const std::vector<CatalogProblem>& problems() const { return problems_; }
  std::size_t files_read() const { return files_read_; }
  // The statistics of a tensor without any in the dump, if its file was read; null: unknown.
  const KnownStatistics* statistics(const CatalogTensor& tensor) const;

 private:
  struct Measured {
    Health health;
    std::optional<KnownStatistics> statistics;
    std::string problem;
  };
  static Measured measure(const std::filesystem::path& path, const CatalogTensor& tensor);
  void keep(const CatalogTensor& tensor, Measured measured);

  const CatalogRank& rank_;
  unsigned threads_;
  std::unordered_map<const CatalogTensor*, Measured> known_;
  std::vector<CatalogProblem> problems_;
  std::size_t files_read_ = 0;
};

}  // namespace sonde
