// A command run as a child: signals go through to it, and its end comes back.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sonde/result.h"

namespace sonde {

struct ChildEnd {
  int exit_code = 0;  // as a shell would say it: 128 + number when a signal ended it
  int signal = 0;     // the signal that ended it; 0: it exited
  double seconds = 0;
};

// In what the child differs from us.
struct ChildSetting {
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::vector<std::string> without;                              // variables of ours that it does not get
  std::filesystem::path output;                                  // a file for its standard output; empty: ours
};

// Runs `command` and waits for it. Meanwhile the signals somebody sends to this process are passed on; those of the
// terminal reach the child by themselves. `not_found` when the program does not exist.
Result<ChildEnd> run_child(const std::vector<std::string>& command, const ChildSetting& setting);

// As a shell says that a command cannot be run.
inline constexpr int kCannotRun = 126;
inline constexpr int kNoSuchCommand = 127;
int status_of_no_run(const Error& error);

// Runs `command` and gives what it wrote to standard output; for questions to an interpreter. stderr is dropped.
Result<std::string> ask_child(const std::vector<std::string>& command, const ChildSetting& setting);

// The interpreter beside this program, as in a virtual environment; else the first on the path.
std::string default_python();

// `python` with `arguments`, for programs of ours. They import nothing from the current directory, which may be somebody
// else's dump: neither of themselves (-P) nor through a part of PYTHONPATH that is empty or relative (python_setting).
std::vector<std::string> python_command(const std::string& python, const std::vector<std::string>& arguments);
ChildSetting python_setting();

}  // namespace sonde
