// `sonde run --prove`: shows that recording changes no bit of a command's results.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace sonde {

struct ProveRequest {
  std::vector<std::string> command;
  std::filesystem::path config;
  std::filesystem::path dump;     // the path in the configuration
  std::filesystem::path scratch;  // an empty temporary directory
  bool json = false;
};

// Runs the command without Sonde and then recording, and compares the digests that python/sonde/prove.py writes in
// both; if they differ, runs it once more without Sonde. The verdict goes to stdout, the rest to stderr. Returns the
// exit status: 0 identical, 1 Sonde makes a difference, 2 nothing is proved, 3 the command is not deterministic; other
// values if it cannot be run.
int prove(const ProveRequest& request);

}  // namespace sonde
