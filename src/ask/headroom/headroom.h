// headroom: how near the tensors of a dump are to the largest number of their type, and what another type would lose.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ground/tensor/number_format.h"
#include "read/catalog/catalog.h"
#include "sonde/answers.h"
#include "sonde/questions.h"
#include "sonde/result.h"

namespace sonde {

struct HeadroomOptions {
  std::vector<const NumberFormat*> formats;
  HeadroomScale scale = HeadroomScale::none;
  bool outputs = true, inputs = false;
  std::size_t threads = 0;  // 0: one for each processor
};

// The formats with these names; without names the usual ones. Fails with `invalid_argument` on another name or side.
Result<HeadroomOptions> headroom_options(const HeadroomQuestion& question);

// An operator of a step, whose tensors are looked at.
struct RecordedOp {
  const CatalogRank* rank;
  const CatalogStep* step;
  const CatalogOp* op;
};

// `advance(done, all)`: recordings that have been read; called by one thread at a time.
HeadroomReport headroom(const std::vector<RecordedOp>& ops, const HeadroomOptions& options,
                        const std::function<void(std::size_t, std::size_t)>& advance = {});

}  // namespace sonde
