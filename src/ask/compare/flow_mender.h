// FlowMender: exchanges matches that rest on the order of ops for those that the data flow shows.
//
//   FlowMender mender(target, golden, matches, may_belong);
//   mender.run();
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "ask/compare/compare_side.h"
#include "ask/compare/match_ops.h"

namespace sonde {

class FlowMender {
 public:
  // True if two ops do the same work, and neither is mapped by the user.
  using MayBelong = std::function<bool(std::uint32_t target, std::uint32_t golden)>;

  FlowMender(const CompareSide& target, const CompareSide& golden, std::vector<OpMatch>& matches, MayBelong may_belong);

  // An op that reads another output than its counterpart does is exchanged with the one that reads the same, if then
  // all ops that follow from it agree better. If the program itself exchanged the two, they do not, and both stay.
  void run();

  // True if another input, or a reader, shows that the two belong together.
  bool is_shown_by_flow(std::uint32_t target) const;

 private:
  static constexpr std::uint32_t kNoTarget = 0xFFFFFFFF;
  struct Change {
    std::uint32_t target, golden_before;
  };

  int agreement(const CompareInput& target, const CompareInput& golden) const;
  int agreement(std::uint32_t target, std::uint32_t golden) const;
  std::uint32_t better_for(std::uint32_t target) const;
  void find_candidates(std::uint32_t target, const CompareInput& input, std::set<std::uint32_t>& found) const;
  int gain_of(std::uint32_t target, std::uint32_t golden) const;
  void set(std::uint32_t target, std::uint32_t golden);
  void exchange(std::uint32_t target, std::uint32_t golden);
  bool try_exchange(std::uint32_t target, std::uint32_t golden);
  int sum_over(const std::set<std::uint32_t>& ops) const;

  const CompareSide& target_;
  const CompareSide& golden_;
  std::vector<OpMatch>& matches_;
  MayBelong may_belong_;
  std::vector<std::uint32_t> taken_;  // by golden op: the target's
  std::vector<Change> changes_;       // of the exchange that is tried
  // Golden ops by what they read from outside, and its slot.
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::vector<std::uint32_t>> readers_of_outside_;
};

}  // namespace sonde
