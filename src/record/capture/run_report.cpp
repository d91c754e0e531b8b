#include "record/capture/run_report.h"

#include <unistd.h>

#include <fstream>
#include <string>

#include "ground/base/json.h"
#include "plan/config/environment.h"

namespace sonde {

bool report_to_run(std::string_view kind, std::string_view text) {
  const std::string path = variable_of_environment("SONDE_RUN_REPORT");
  if (path.empty()) return false;
  const Json entry = {{"kind", kind}, {"text", text}, {"pid", ::getpid()}, {"rank", variable_of_environment("RANK")}};
  std::ofstream report(path, std::ios::app);
  report << text_of_json(entry) + "\n" << std::flush;
  return report.good();
}

}  // namespace sonde
