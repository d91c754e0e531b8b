#include "recording.h"

#include <dlfcn.h>
#include <torch/version.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string_view>

#include "capture.h"
#include "collectives.h"
#include "names.h"
#include "place.h"
#include "setup.h"
#include "thread_state.h"

namespace sonde_torch {
namespace {

std::atomic<bool> g_optimizer_made{false};
std::atomic<bool> g_started{false};  // started here, and not stopped

// Each line begins with "sonde: ".
void say(std::string_view text) {
  std::string lines;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.empty()) continue;
    lines += line.substr(0, 6) == "sonde:" ? "" : "sonde: ";
    lines += line;
    lines += '\n';
  }
  std::fputs(lines.c_str(), stderr);
}

std::uint32_t number_from(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  char* end = nullptr;
  const unsigned long number = std::strtoul(text, &end, 10);
  if (*end == '\0' && number <= 0x7FFFFFFF && *text != '-') return static_cast<std::uint32_t>(number);
  say(std::string(variable) + "='" + text + "' is not a number from 0 to 2147483647; using " +
      std::to_string(otherwise));
  return otherwise;
}

// The command of `sonde run`, else the program's own words, with spaces between them.
std::string command_line() {
  if (const char* command = std::getenv("SONDE_COMMAND"); command != nullptr && *command != '\0') return command;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (c == '\0') c = ' ';
  }
  return text;
}

// The variables of each launcher, in this order: python/sonde/console.py.
struct Launcher {
  const char *rank, *local_rank, *world_size;
};
constexpr Launcher kLaunchers[] = {
    {"RANK", "LOCAL_RANK", "WORLD_SIZE"},
    {"RANK_ID", "LOCAL_RANK", "RANK_SIZE"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
    {"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"},
};

const Launcher& launcher_of_environment() {
  for (const Launcher& launcher : kLaunchers) {
    const char* rank = std::getenv(launcher.rank);
    if (rank != nullptr && *rank != '\0') return launcher;
  }
  return kLaunchers[0];
}

void report_run_info() {
  const std::string command = command_line();
  const std::string host = std::string("libtorch ") + TORCH_VERSION;
  sonde_run_info info{};
  info.size = sizeof info;
  const Launcher& launcher = launcher_of_environment();
  info.rank = number_from(launcher.rank, 0);
  info.device = number_from("LOCAL_RANK", number_from(launcher.local_rank, 0));
  info.host = host.c_str();
  info.command = command.c_str();
  info.world_size = number_from(launcher.world_size, 1);
  api().set_run_info(&info);
}

// Processes that this one starts are not the program to record, and would load libtorch for nothing.
void leave_preload() {
  Dl_info own{};
  const char* preload = std::getenv("LD_PRELOAD");
  if (preload == nullptr || dladdr(reinterpret_cast<void*>(&leave_preload), &own) == 0) return;
  const std::string_view file = own.dli_fname;
  const std::string_view name = file.substr(file.rfind('/') + 1);
  std::string kept;
  for (std::string_view rest = preload; !rest.empty();) {
    const std::string_view entry = rest.substr(0, rest.find_first_of(": "));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    if (entry.empty() || entry.substr(entry.rfind('/') + 1) == name) continue;
    kept += (kept.empty() ? "" : ":") + std::string(entry);
  }
  if (kept.empty()) {
    unsetenv("LD_PRELOAD");
  } else {
    setenv("LD_PRELOAD", kept.c_str(), 1);
  }
}

// In Python the package sonde records, with its own adapter.
bool is_python() { return dlsym(RTLD_DEFAULT, "Py_IsInitialized") != nullptr; }

__attribute__((constructor)) void begin() {
  leave_preload();
  if (!is_python()) start_recording(nullptr);
}

}  // namespace

bool start_recording(const char* config) {
  const struct sonde_api* table = sonde_api(SONDE_API_VERSION);
  const char* why_not = table == nullptr ? sonde_api_mismatch(SONDE_API_VERSION, sizeof(struct sonde_api)) : nullptr;
  if (table != nullptr) why_not = set_engine(*table);
  if (why_not != nullptr) {
    say(std::string("not recording: ") + why_not);
    return false;
  }
  std::array<char, 16384> message{};
  const int begun = api().start(config, message.data(), message.size());
  if (begun == 1) return false;  // nothing is asked for
  if (begun != 0) {
    say(std::string("not recording: ") + message.data());
    return false;
  }
  if (std::getenv("SONDE_RUN_REPORT") == nullptr) say(message.data());  // warnings; `sonde run` has printed them
  report_run_info();
  if (!g_started.exchange(true)) {
    static const bool registered = std::atexit(stop_recording) == 0;
    static_cast<void>(registered);
  }
  install(nullptr);
  return true;
}

void stop_recording() {
  if (!g_started.exchange(false)) return;
  uninstall();
  std::array<char, 16384> text{};
  api().stop(text.data(), text.size());
  say(text.data());
}

void look_after_step() {
  std::array<char, 4096> failure{};
  if (api().take_failure(failure.data(), failure.size()) != 0) say(failure.data());
  if (api().capture() != SONDE_CAPTURE_OVER) return;
  std::exit(0);  // as the plan wants it; the recording ends with the program
}

OptimizerStep::OptimizerStep(std::string type) {
  ThreadState& state = thread_state();
  if (capturing() && state.optimizer_depth == 0) report_names();
  Frame& frame = state.frames.emplace_back();
  frame.kind = FrameKind::optimizer;
  frame.scope = "optimizer-" + std::move(type);
  ++state.optimizer_depth;
}

OptimizerStep::~OptimizerStep() {
  ThreadState& state = thread_state();
  if (!state.frames.empty() && state.frames.back().kind == FrameKind::optimizer) state.frames.pop_back();
  const bool outermost = --state.optimizer_depth == 0;
  if (!outermost || !returned_ || is_inert()) return;
  api().optimizer_end();
  set_capture();
  forget_dead_storages();
  purge_collectives();
  if (capturing()) report_names();
}

void optimizer_exists() { g_optimizer_made = true; }
bool optimizer_was_made() { return g_optimizer_made; }

}  // namespace sonde_torch
