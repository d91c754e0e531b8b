// `sonde run --prove`: shows that recording changes no bit of a command's results.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sonde {

struct ProveRequest {
  std::vector<std::string> command;
  std::filesystem::path config;
  std::filesystem::path dump;     // that the configuration names
  std::filesystem::path scratch;  // an empty directory of ours
  bool json = false;
};

// Runs the command without Sonde and recording, and compares what python/sonde/prove.py writes down in both; where they
// differ, once more without Sonde. The verdict goes to stdout, the rest to stderr. Gives the exit status: 0 identical,
// 1 Sonde makes a difference, 2 nothing is proved, 3 the command is not deterministic, else it cannot be run.
int prove(const ProveRequest& request);

}  // namespace sonde
