#include <optional>

#include "child.h"
#include "dump.h"
#include "python_programs.h"
#include "verbs.h"

namespace sonde {

int mcp(const McpCommand& options) {
  const std::optional<int> status = run_python(options.python, kMcpServer, options.dumps);
  if (!status) return kBadUsage;
  Answer::get().set_form(AnswerForm::text);  // the child has answered itself
  return *status;
}

}  // namespace sonde
