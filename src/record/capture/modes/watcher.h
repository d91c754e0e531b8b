// Watcher: reads outputs again after other operators, to find the op that overwrites them (acl.json, scene "watcher").
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dump/journal/record.h"
#include "record/capture/content_cache.h"

namespace sonde {

// The Selector decides which ops are watched and which ones read them. Not synchronised: the session calls it under its
// lock.
class Watcher {
 public:
  // The last read of an output of a watched op.
  struct Seen {
    std::uint64_t fingerprint = 0;
    Content content;
    std::uint64_t written = kNoSequence;  // the record that wrote these bytes to disk, after another op
  };
  struct Watched {
    const OpName* name = nullptr;
    StepId step;
    std::uint64_t stamp = 0;                       // of the step in which it ran
    std::unordered_map<std::uint32_t, Seen> seen;  // by slot
    bool stopped = false;
  };
  // The op ran: its outputs are watched until the next step.
  Watched& ran(const OpName& name, StepId step, std::uint64_t stamp);
  Watched* find(std::uint32_t name);
  void stopped(Watched& watched, std::string_view why);
  void changed(const Watched& watched, std::uint32_t slot, std::string_view by);

  // `Default_a-op0_To_Default_b-op0`: after `reader`, the output of `watched`.
  static std::string pair_name(std::string_view reader, std::string_view watched);
  // The changes that were found, and the ops whose watch stopped early: one line each.
  std::vector<std::string> report() const;

 private:
  std::unordered_map<std::uint32_t, Watched> ran_;  // by the name's id
  std::vector<std::string> notes_;
  std::unordered_set<std::string> reported_;  // names: once is enough
  std::size_t changes_ = 0;
};

}  // namespace sonde
