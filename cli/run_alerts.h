// `sonde run --alert`: a program beside the command that asks the growing dump for conditions (programs/alerts.py).
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>

#include "contract/commands.h"

namespace sonde {

// A line about options of alerts that cannot be used: a condition that watch does not know, an address without a host.
std::optional<std::string> what_is_wrong_with_alerts(const RunCommand& options);

// While it lives, the dump is asked; the destructor waits until it was asked for the last time. A program that cannot be
// started is a warning.
class Alerts {
 public:
  Alerts(const RunCommand& options, const std::filesystem::path& dump);
  ~Alerts();
  Alerts(const Alerts&) = delete;
  Alerts& operator=(const Alerts&) = delete;

 private:
  pid_t pid_ = 0;   // 0: no alert is asked for, or the program was not started
  int input_ = -1;  // its standard input, which ends with the command
};

}  // namespace sonde
