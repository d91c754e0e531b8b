// The way back from what a step reads to the operators of earlier steps that wrote it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/index/partial_catalog.h"
#include "sonde/answers.h"

namespace sonde {

struct WayBefore {
  std::vector<EarlierOp> ops;  // in the order of the run
  std::string missing;         // why nobody is known
};

// Reads the ops of earlier steps as they are needed.
class EarlierSteps {
 public:
  // `catalog` of `dump` must outlive this object.
  EarlierSteps(const Catalog& catalog, std::string dump) : catalog_(catalog), dump_(std::move(dump)) {}

  // Empty: the tensor cannot have been written in an earlier step, or the dump cannot be read once more.
  WayBefore way_to(const CatalogRank& rank, const CatalogStep& step, const CatalogTensor& read);

 private:
  const Catalog* with_ops();

  const Catalog& catalog_;
  std::string dump_;
  std::optional<PartialCatalog> part_;  // of a saved index
};

}  // namespace sonde
