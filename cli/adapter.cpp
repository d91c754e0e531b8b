#include "adapter.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "child.h"

namespace sonde {
namespace {

struct AdapterOptions {
  std::string action, python;
  bool background = false;
};

constexpr const char* kAdapterHelp =
    "The adapter is compiled against exactly one PyTorch and one Python. Wheels contain adapters for common versions;\n"
    "elsewhere the first training compiles it, which takes 20 to 30 seconds. `build` does so beforehand; `sonde info`\n"
    "shows the result.\n"
    "Exit status: 0, 2 bad usage, 3 the adapter cannot be built.\n"
    "Example: sonde adapter build --background";

int run_adapter(const AdapterOptions& options) {
  std::vector<std::string> arguments = {options.action};
  if (options.background) arguments.push_back("--background");
  const std::optional<int> status = run_python(options.python, kAdapterProgram, arguments);
  if (!status) return kBadUsage;
  return *status == 0 ? kNothingFound : kUnreadable;
}

}  // namespace

void add_adapter(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<AdapterOptions>();
  CLI::App* verb = app.add_subcommand("adapter", "Compile the library that watches PyTorch before it is needed.");
  verb->add_option("ACTION", options->action, "build")->required()->check(CLI::IsMember({"build"}));
  verb->add_flag("--background", options->background, "return at once; a training that starts meanwhile waits for it");
  verb->add_option("--python", options->python, "interpreter that has PyTorch (default: the one beside this program)")
      ->type_name("PROGRAM");
  verb->footer(kAdapterHelp);
  verb->callback([options, &exit_status] { exit_status = run_adapter(*options); });
}

}  // namespace sonde
