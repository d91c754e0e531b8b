#include "plan/config/environment.h"

#include <cstdlib>

namespace sonde {

std::string variable_of_environment(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

bool is_off_by_environment() {
  const std::string off = variable_of_environment("SONDE_OFF");
  return !off.empty() && off != "0";
}

std::string configuration_of_environment() {
  if (is_off_by_environment()) return "";
  const std::string own = variable_of_environment("SONDE_CONFIG");
  return !own.empty() ? own : variable_of_environment("MINDSPORE_DUMP_CONFIG");
}

}  // namespace sonde
