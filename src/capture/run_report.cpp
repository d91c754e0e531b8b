#include "capture/run_report.h"

#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sonde {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

bool report_to_run(std::string_view kind, std::string_view text) {
  const std::string path = variable("SONDE_RUN_REPORT");
  if (path.empty()) return false;
  const nlohmann::json entry = {{"kind", kind}, {"text", text}, {"pid", ::getpid()}, {"rank", variable("RANK")}};
  std::ofstream report(path, std::ios::app);
  report << entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" << std::flush;
  return report.good();
}

}  // namespace sonde
