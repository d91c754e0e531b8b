#include "ground/base/python_path.h"

#include <cstdlib>
#include <sstream>

namespace sonde {

std::string safe_python_path() {
  const char* const value = std::getenv("PYTHONPATH");
  std::istringstream parts(value != nullptr ? value : "");
  std::string kept;
  for (std::string part; std::getline(parts, part, ':');) {
    if (part.starts_with('/')) kept += (kept.empty() ? "" : ":") + part;
  }
  return kept;
}

}  // namespace sonde
