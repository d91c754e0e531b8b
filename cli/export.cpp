
#include <string>

#include "answer.h"
#include "python_programs.h"
#include "python_verbs.h"
#include "verbs.h"

namespace sonde {
namespace {

std::string request_of(const ExportCommand& options) {
  Json request = {{"dump", options.dump}, {"to", options.to}, {"measure", !options.no_measure}, {"json", options.json}};
  const auto put = [&](const char* name, const auto& value) {
    if (!value.empty()) request[name] = value;
  };
  put("format", options.format);
  put("table", options.table);
  put("select", options.select);
  put("statistics", options.statistics);
  put("step", options.step);
  put("rank", options.rank);
  put("graph", options.graph);
  put("slot", options.slot);
  put("op", options.op);
  put("type", options.type);
  put("side", options.side);
  put("source", options.source);
  return request.dump(-1, ' ', true, Json::error_handler_t::replace);
}

}  // namespace

int export_dump(const ExportCommand& options) {
  return answered_by_python(options.python, kExportDump, {request_of(options)});
}

}  // namespace sonde
