// memory_stomp: values that changed although no operator wrote them. From a dump of the watcher, or of ordinary steps:
// compares the result that an op recorded with the values that later ops recorded when they read it.
#pragma once

#include "ask/finding/finding.h"
#include "read/catalog/catalog.h"
#include "read/catalog/dump_part.h"

namespace sonde {

StompReport memory_stomp(const Catalog& catalog, const DumpPart& part = {});

}  // namespace sonde
