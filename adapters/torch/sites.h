// Sites: the places of operators, as the engine gets them, and those that a thread knows already.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace sonde_torch {

// Numbers from 1; 0 or less: unknown.
struct SiteLine {
  std::string file, function;
  int line = 0, column = 0, end_line = 0, end_column = 0;
};

struct SiteText {
  std::string scope;
  std::vector<SiteLine> trace;  // innermost first
  bool optimizer = false;       // of a compiled Optimizer.step, which is not on the stack
};

// The engine's number of a site; `phase` is a SONDE_PHASE_*, `forward_site` 0 where there is none. 0: it was refused.
std::uint32_t intern(const char* op_type, std::uint32_t phase, std::uint32_t forward_site, const SiteText& text,
                     bool flagged);

// The sites of one thread, by the hash of what decides them.
class KnownSites {
 public:
  std::uint32_t find(std::uint64_t key);  // 0: not known
  void add(std::uint64_t key, std::uint32_t site);
  void clear();

 private:
  struct Entry {
    std::uint64_t key = 0;
    std::uint32_t site = 0;
  };
  static constexpr std::size_t kMost = 1 << 16, kMostRecent = 4096;
  std::unordered_map<std::uint64_t, std::uint32_t> all_;
  std::vector<Entry> recent_ = std::vector<Entry>(kMostRecent);  // one look-up reads one place
};

}  // namespace sonde_torch
