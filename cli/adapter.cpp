#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "child.h"
#include "verbs.h"

namespace sonde {
int adapter(const AdapterCommand& options) {
  std::vector<std::string> arguments = {options.action};
  if (options.background) arguments.push_back("--background");
  const std::optional<int> status = run_python(options.python, kAdapterProgram, arguments);
  if (!status) return kBadUsage;
  return *status == 0 ? kNothingFound : kUnreadable;
}

}  // namespace sonde
