#include "child.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string_view>

#include "answer.h"
#include "ground/base/python_path.h"

extern char** environ;

namespace sonde {
namespace {

constexpr std::array kPassedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// 0 until there is a child; earlier signals are kept for it.
volatile pid_t child_pid = 0;
volatile std::sig_atomic_t sent_early = 0;

// The kernel sends ^C to the whole foreground group: the child has it already and must not get it twice.
void pass_on(int signal, siginfo_t* info, void*) {
  if (info->si_code == SI_KERNEL) return;
  if (child_pid > 0)
    kill(child_pid, signal);
  else
    sent_early = signal;
}

// While it lives, signals go to the child; the destructor restores the previous handlers.
class SignalsToChild {
 public:
  SignalsToChild() {
    struct sigaction action {};
    action.sa_sigaction = pass_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &action, &before_[i]);
  }
  ~SignalsToChild() {
    for (std::size_t i = 0; i < kPassedOn.size(); ++i) sigaction(kPassedOn[i], &before_[i], nullptr);
    child_pid = 0;
  }
  SignalsToChild(const SignalsToChild&) = delete;
  SignalsToChild& operator=(const SignalsToChild&) = delete;

  void child_is(pid_t pid) {
    child_pid = pid;
    if (sent_early != 0) kill(pid, sent_early);
  }

 private:
  std::array<struct sigaction, kPassedOn.size()> before_{};
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (std::string& text : texts) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> environment_of(const ChildSetting& setting) {
  std::map<std::string, std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    all[std::string(text.substr(0, equals))] = text.substr(equals + 1);
  }
  for (const std::string& name : setting.without) all.erase(name);
  for (const auto& [name, value] : setting.environment) all[name] = value;
  std::vector<std::string> result;
  for (const auto& [name, value] : all) result.push_back(name + "=" + value);
  return result;
}

Result<pid_t> spawn(std::vector<std::string> command, std::vector<std::string> environment,
                    posix_spawn_file_actions_t* actions) {
  pid_t pid = 0;
  const int reason =
      posix_spawnp(&pid, command[0].c_str(), actions, nullptr, pointers(command).data(), pointers(environment).data());
  if (reason == 0) return pid;
  const ErrorCode code = reason == ENOENT ? ErrorCode::not_found : ErrorCode::io;
  return Error{code, "cannot run '" + command[0] + "': " + std::strerror(reason)};
}

void add_output(const ChildSetting& setting, posix_spawn_file_actions_t& actions) {
  if (setting.output.empty()) return;
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, setting.output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
}

int wait_for(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return status;
}

std::string read_all(int fd) {
  std::string text;
  std::array<char, 4096> buffer;
  for (;;) {
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return text;
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

}  // namespace

Result<ChildEnd> run_child(const std::vector<std::string>& command, const ChildSetting& setting) {
  const auto started = std::chrono::steady_clock::now();
  SignalsToChild signals;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  add_output(setting, actions);
  const Result<pid_t> pid = spawn(command, environment_of(setting), &actions);
  posix_spawn_file_actions_destroy(&actions);
  if (!pid) return pid.error();
  signals.child_is(*pid);
  ChildEnd end = end_of_child(*pid);
  end.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  return end;
}

ChildEnd end_of_child(pid_t process) {
  const int status = wait_for(process);
  ChildEnd end;
  if (WIFSIGNALED(status)) end.signal = WTERMSIG(status);
  end.exit_code = end.signal != 0 ? 128 + end.signal : WEXITSTATUS(status);
  return end;
}

Result<pid_t> start_child(const std::vector<std::string>& command, const ChildSetting& setting, int input) {
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
  add_output(setting, actions);
  Result<pid_t> pid = spawn(command, environment_of(setting), &actions);
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

int status_of_no_run(const Error& error) {
  return print_error(error, error.code == ErrorCode::not_found ? kNoSuchCommand : kCannotRun);
}

Result<std::string> ask_child(const std::vector<std::string>& command, const ChildSetting& setting) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0)
    return Error{ErrorCode::io, std::string("cannot make a pipe: ") + std::strerror(errno)};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  const Result<pid_t> pid = spawn(command, environment_of(setting), &actions);
  posix_spawn_file_actions_destroy(&actions);
  close(ends[1]);
  std::string text;
  int status = 0;
  if (pid) {
    text = read_all(ends[0]);
    status = wait_for(*pid);
  }
  close(ends[0]);
  if (!pid) return pid.error();
  if (status != 0) return Error{ErrorCode::io, "'" + command[0] + "' did not answer"};
  return text;
}

std::vector<std::string> python_command(const std::string& python, const std::string& program,
                                        const std::vector<std::string>& arguments) {
  std::vector<std::string> command = {python, "-c", "import sys\nif sys.path[:1] == ['']: del sys.path[0]\n" + program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  return command;
}

ChildSetting python_setting() {
  if (std::getenv("PYTHONPATH") == nullptr) return {};
  const std::string kept = safe_python_path();
  ChildSetting setting;
  if (kept.empty()) {
    setting.without.emplace_back("PYTHONPATH");
  } else {
    setting.environment.emplace_back("PYTHONPATH", kept);
  }
  return setting;
}

std::string default_python() {
  std::error_code failed;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", failed);
  const std::filesystem::path beside = self.parent_path() / "python3";
  return !failed && ::access(beside.c_str(), X_OK) == 0 ? beside.string() : "python3";
}

std::optional<int> run_python(const std::string& python, const std::string& program,
                              const std::vector<std::string>& arguments) {
  const Result<ChildEnd> end =
      run_child(python_command(python.empty() ? default_python() : python, program, arguments), python_setting());
  if (end) return end->exit_code;
  print_error(end.error().message + "; name an interpreter that has sonde installed: --python");
  return std::nullopt;
}

}  // namespace sonde
