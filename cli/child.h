// Runs a command as a child: passes signals to it, and returns its exit status.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "sonde/result.h"

namespace sonde {

struct ChildEnd {
  int exit_code = 0;  // as in a shell: 128 + number if a signal ended it
  int signal = 0;     // the signal that ended it; 0: it exited
  double seconds = 0;
};

// The differences between the child and this process.
struct ChildSetting {
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::vector<std::string> without;                              // variables of ours that it does not get
  std::filesystem::path output;                                  // a file for its standard output; empty: ours
};

// Runs `command` and waits for it. Meanwhile, signals that other processes send to this one are passed on; signals of
// the terminal reach the child directly. `not_found` if the program does not exist.
Result<ChildEnd> run_child(const std::vector<std::string>& command, const ChildSetting& setting);

// The exit status for a command that cannot be run, as in a shell.
inline constexpr int kCannotRun = 126;
inline constexpr int kNoSuchCommand = 127;
int status_of_no_run(const Error& error);

// Runs `command` and returns its standard output; for questions to an interpreter. stderr is dropped.
Result<std::string> ask_child(const std::vector<std::string>& command, const ChildSetting& setting);

// The interpreter beside this program, as in a virtual environment; otherwise the first on the path.
std::string default_python();

// `python` with `arguments`, for our own programs. They import nothing from the current directory, which may be
// somebody else's dump: -P excludes it, and python_setting removes empty and relative parts of PYTHONPATH.
std::vector<std::string> python_command(const std::string& python, const std::vector<std::string>& arguments);
ChildSetting python_setting();

}  // namespace sonde
