// DumpAccess: the catalog behind a public Dump, for the analyses.
#pragma once

#include "ask/watch/watchpoints.h"
#include "ground/base/mutex.h"
#include "read/catalog/catalog.h"
#include "sonde/dump.h"

namespace sonde {

class DumpAccess {
 public:
  // Lives as long as a copy of the dump. Later measurements are written into it: hold the mutex while reading it.
  static const Catalog& catalog(const Dump& dump);
  static Mutex& mutex(const Dump& dump);
  static TensorPlace place_of(const Dump& dump, std::size_t tensor);
  static std::size_t index_of(const Dump& dump, const TensorPlace& place);
};

}  // namespace sonde
