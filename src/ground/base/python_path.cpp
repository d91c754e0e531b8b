#include "ground/base/python_path.h"

#include <cstdlib>

#include "ground/base/text.h"

namespace sonde {

std::string safe_python_path() {
  const char* const value = std::getenv("PYTHONPATH");
  std::string kept;
  for (const std::string_view part : split(value != nullptr ? value : "", ':')) {
    if (part.starts_with('/')) kept.append(kept.empty() ? "" : ":").append(part);
  }
  return kept;
}

}  // namespace sonde
