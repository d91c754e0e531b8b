#include "capture/by_environment.h"

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

std::string configuration_of_environment() {
  if (const std::string off = variable("SONDE_OFF"); !off.empty() && off != "0") return "";
  const std::string own = variable("SONDE_CONFIG");
  return !own.empty() ? own : variable("MINDSPORE_DUMP_CONFIG");
}

bool report_to_run(std::string_view kind, std::string_view text) {
  const std::string path = variable("SONDE_RUN_REPORT");
  if (path.empty()) return false;
  const nlohmann::json entry = {{"kind", kind}, {"text", text}, {"pid", ::getpid()}, {"rank", variable("RANK")}};
  std::ofstream report(path, std::ios::app);
  report << entry.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n" << std::flush;
  return report.good();
}

}  // namespace sonde
