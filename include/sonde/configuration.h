// Configurations as text: making a small one, and asking one where its dump is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "sonde/export.h"

namespace sonde {

// The content of a small configuration; everything else has its default.
struct Configuration {
  std::filesystem::path path;  // absolute, with any characters
  std::string net_name = "Net";
  std::string iteration = "all";
  std::string saved_data = "statistic";  // `tensor`, `statistic`, `full`; `graph`: no tensor is read
  std::vector<std::string> kernels;      // empty: all operators
  std::vector<std::string> statistics;   // words of `statistic_category`; empty: its default
  std::vector<std::string> requests;     // of an engine that serves requests; empty: all steps
  std::uint64_t initial_iteration = 0;
  std::uint32_t devices = 8;  // of one machine
  bool reread = false;
};

// The JSON, in MindSpore's dialect, which Sonde reads in every host.
SONDE_EXPORT std::string text_of(const Configuration& configuration);

// The directory that a configuration of any dialect, as JSON, names for the dump; empty if it has a mistake.
SONDE_EXPORT std::filesystem::path dump_path_of(const std::string& configuration);

}  // namespace sonde
