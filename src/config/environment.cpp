#include "config/environment.h"

#include <cstdlib>

namespace sonde {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

}  // namespace

bool is_off_by_environment() {
  const std::string off = variable("SONDE_OFF");
  return !off.empty() && off != "0";
}

std::string configuration_of_environment() {
  if (is_off_by_environment()) return "";
  const std::string own = variable("SONDE_CONFIG");
  return !own.empty() ? own : variable("MINDSPORE_DUMP_CONFIG");
}

}  // namespace sonde
