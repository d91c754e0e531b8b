// Runs a command as a child: passes signals to it, and returns its exit status.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
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

// Starts `command` with the descriptor `input` as its standard input; returns its process. It has setting.output.
Result<pid_t> start_child(const std::vector<std::string>& command, const ChildSetting& setting, int input);

// The exit status for a command that cannot be run, as in a shell.
inline constexpr int kCannotRun = 126;
inline constexpr int kNoSuchCommand = 127;
int status_of_no_run(const Error& error);  // after printing it

// Waits for the end of a process of start_child. `seconds` is 0.
ChildEnd end_of_child(pid_t process);

// Runs `command` and returns its standard output; for questions to an interpreter. stderr is dropped.
Result<std::string> ask_child(const std::vector<std::string>& command, const ChildSetting& setting);

// The interpreter beside this program, as in a virtual environment; otherwise the first on the path.
std::string default_python();

// `python` with a program of our own and its arguments. It imports nothing from the current directory, which may be
// somebody else's dump: the program removes it from the path, since -P is of Python 3.11, and python_setting removes
// empty and relative parts of PYTHONPATH.
std::vector<std::string> python_command(const std::string& python, const std::string& program,
                                        const std::vector<std::string>& arguments);
ChildSetting python_setting();

// The program that runs `python -m sonde.adapter`.
inline constexpr const char* kAdapterProgram =
    "import runpy; runpy.run_module('sonde.adapter', run_name='__main__', alter_sys=True)";

// Runs the program in `python`, or in default_python() if that is empty. Returns its exit status; empty, after a line
// on stderr, if there is no such interpreter.
std::optional<int> run_python(const std::string& python, const std::string& program,
                              const std::vector<std::string>& arguments);

}  // namespace sonde
