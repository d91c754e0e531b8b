// RankMeetings: which calls of collectives on other ranks meet one of a rank. They are matched by group, type and number,
// or by their order where the dump has no numbers; a receive with its send.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ask/first_bad/searched_ranks.h"
#include "read/operators/collective_call.h"

namespace sonde {

// Whether an operator read NaN or infinities, and whether it made or got some.
struct BadData {
  bool given = false, got = false;
};
BadData is_bad(RankSearch& search, const CatalogOp& op);

// A call on another rank that meets one of ours.
struct Met {
  SearchedRank* rank = nullptr;
  StepId step;
  std::string op_name;
  bool gave_bad = false, got_bad = false;
};

class RankMeetings {
 public:
  explicit RankMeetings(Searches& searches) : searches_(searches) {}  // which outlive it

  // Those of the step with the first root, in order.
  const std::vector<CollectiveCall>& calls_of(SearchedRank& rank);
  // `call`: one of these.
  std::vector<Met> met_by(SearchedRank& own, const CollectiveCall& call);

 private:
  // Of one step of a rank: with their operators, or only the facts about them.
  struct StepCalls {
    std::vector<CollectiveCall> calls;
    const std::vector<RankCall>* facts = nullptr;
    std::map<std::string, std::vector<const CollectiveCall*>> by_meeting;

    const std::vector<const CollectiveCall*>& at(const std::string& meeting) const;
  };
  // A call, and its step by its place in the rank.
  using StepCall = std::pair<std::size_t, const CollectiveCall*>;
  // Of a rank's run at one meeting place, in order.
  using RunCalls = std::vector<StepCall>;

  const StepCalls& read(SearchedRank& rank, std::size_t step);
  const StepCalls& known(SearchedRank& rank, std::size_t step);
  Met met(SearchedRank& rank, const StepCall& call);
  RunCalls calls_of_run(SearchedRank& rank, std::size_t run, const std::string& meeting, CollectiveWay way);
  std::vector<Met> met_in_step(SearchedRank& own, const CollectiveCall& call);
  // The call of this number at the meeting place; null: none.
  StepCall numbered(SearchedRank& rank, const CatalogStep& step, const std::string& meeting,
                    const CollectiveCall& call);
  std::vector<Met> met_over_run(SearchedRank& own, const CollectiveCall& call);

  Searches& searches_;
  std::map<std::pair<const SearchedRank*, std::size_t>, StepCalls> read_, known_;
};

}  // namespace sonde
