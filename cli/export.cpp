
#include <string>

#include "answer.h"
#include "engine.h"
#include "python_programs.h"
#include "python_verbs.h"
#include "verbs.h"

namespace sonde {
int export_dump(const ExportCommand& options) {
  int status = kNothingFound;
  if (!index_ranks(options.dump, options.engine, status)) return status;
  const std::string request = request_with(
      {{"dump", options.dump}, {"to", options.to}, {"measure", !options.no_measure}, {"json", options.json}},
      {{"format", options.format},
       {"table", options.table},
       {"select", options.select},
       {"statistics", options.statistics},
       {"step", options.step},
       {"rank", options.rank},
       {"graph", options.graph},
       {"slot", options.slot},
       {"op", options.op},
       {"type", options.type},
       {"side", options.side},
       {"source", options.source}});
  return answered_by_python(options.python, kExportDump, {request});
}

}  // namespace sonde
