// first_bad: the first operator of a run whose output has a NaN or an infinity that matters, and why. For "matters" and
// the meaning of each verdict see docs/first-bad.md.
#pragma once

#include <cstddef>
#include <functional>

#include "ask/finding/finding.h"
#include "read/catalog/catalog.h"
#include "read/catalog/dump_part.h"

namespace sonde {

class PartialCatalog;

struct FirstBadOptions {
  DumpPart part;
  unsigned threads = 0;  // for reading files; 0: one per core
  bool trend = true;
  // Reads the ops of a catalog that lacks them, which must be source->catalog(). Null: the catalog has all ops. If
  // source->check() fails afterwards, the result is worthless.
  PartialCatalog* source = nullptr;
  // Called before each step of a rank; may be empty.
  std::function<void(std::size_t step, std::size_t steps)> progress = {};
};

FirstBad first_bad(const Catalog& catalog, const FirstBadOptions& options = {});

}  // namespace sonde
