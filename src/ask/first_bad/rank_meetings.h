// RankMeetings: which calls of collectives on other ranks meet one of a rank. They are matched by group, type and number,
// or by their order where the dump has no numbers; a receive with its send.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ask/first_bad/first_bad_search.h"
#include "read/operators/collective_call.h"

namespace sonde {

using Searches = std::vector<std::unique_ptr<RankSearch>>;

// A call on another rank that meets one of ours.
struct Met {
  RankSearch* search = nullptr;
  const CatalogStep* step = nullptr;
  const CatalogOp* op = nullptr;
  bool gave_bad = false, got_bad = false;
};

Met met(RankSearch& search, const CatalogStep& step, const CatalogOp& op);

class RankMeetings {
 public:
  explicit RankMeetings(Searches& searches) : searches_(searches) {}  // which outlive it

  // Those of a step, in order.
  const std::vector<CollectiveCall>& calls_of(RankSearch& search, const CatalogStep& step);
  std::vector<Met> met_by(RankSearch& own, const CatalogStep& step, const CollectiveCall& call);

 private:
  struct StepCalls {
    std::vector<CollectiveCall> calls;
    std::map<std::string, std::vector<const CollectiveCall*>> by_meeting;
  };
  using StepCall = std::pair<const CatalogStep*, const CollectiveCall*>;
  // Of a rank's run at one meeting place, in order.
  using RunCalls = std::vector<StepCall>;

  const StepCalls& collected(RankSearch& search, const CatalogStep& step);
  const std::vector<const CollectiveCall*>& calls_at(RankSearch& search, const CatalogStep& step,
                                                     const std::string& meeting);
  RunCalls calls_of_run(RankSearch& search, std::size_t run, const std::string& meeting, CollectiveWay way);
  std::vector<Met> met_in_step(RankSearch& own, const CatalogStep& step, const CollectiveCall& call);
  // The call of this number at the meeting place; null: none.
  StepCall numbered(RankSearch& search, const CatalogStep& step, const std::string& meeting,
                    const CollectiveCall& call);
  std::vector<Met> met_over_run(RankSearch& own, const CatalogStep& step, const CollectiveCall& call);

  Searches& searches_;
  std::map<const CatalogStep*, StepCalls> collected_;
};

}  // namespace sonde
