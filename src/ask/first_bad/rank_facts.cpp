#include "ask/first_bad/rank_facts.h"

#include <algorithm>

#include "ask/first_bad/rank_meetings.h"
#include "ask/first_bad/searched_ranks.h"
#include "dump/journal/unrecorded.h"
#include "read/catalog/step_graph.h"
#include "read/operators/collective_call.h"

namespace sonde {
namespace {

// The recording's own words about the steps and operators that max_overhead, or the host, left out.
std::vector<std::string> words_about_left_out(const CatalogRank& rank) {
  std::vector<std::string> words;
  for (const CatalogRun& run : rank.runs) {
    for (const NoteKind about : {NoteKind::overhead, NoteKind::pynative}) {
      const auto last = std::find_if(run.notes.rbegin(), run.notes.rend(),
                                     [&](const std::string& note) { return kind_of_note(note) == about; });
      if (last != run.notes.rend()) words.push_back(*last);
    }
  }
  return words;
}

bool is_received(RankSearch& search, const Root& root) {
  return search.flow().ops()[root.op].nature.collective && root.kind == RootKind::created;
}

// Not of a collective: what came by it is another rank's error. In a later step bad parameters and data may come from the
// update that the ranks made together.
void add_own_roots(RankSearch& search, RankFacts::Found& found) {
  SourceTexts sources = sources_of(search.rank());
  for (const Root& root : search.roots()) {
    if (is_received(search, root)) continue;
    const bool may_be_later = root.kind != RootKind::external;
    if (found.own && !may_be_later) continue;
    Finding finding = finding_with_code(search, root, sources);
    if (!found.own) found.own = finding;
    if (!may_be_later) continue;
    found.own_if_later = std::move(finding);
    return;
  }
}

RankFacts::Found found_by(RankSearch& search) {
  RankFacts::Found found;
  const Root& front = search.roots().front();
  const FlowOp& op = search.flow().ops()[front.op];
  found.step = search.step_index();
  found.op_name = op.op->op_name;
  found.is_collective = is_received(search, front);
  for (const FlowOp& other : search.flow().ops()) {
    if (&other == &op) break;
    found.collectives_before += other.nature.collective ? 1 : 0;
  }
  add_own_roots(search, found);
  for (const CollectiveCall& call : collective_calls(search.step())) {
    const BadData bad = is_bad(search, *call.op);
    found.calls.push_back({.meeting = meeting_of(call, search.rank().rank),
                           .op_name = std::string(call.op->op_name),
                           .number = call.number,
                           .gave_bad = bad.given,
                           .got_bad = bad.got});
  }
  return found;
}

}  // namespace

RankFacts searched(RankSearch& search) {
  RankFacts facts;
  search.run(facts);
  facts.report.looked_at.ranks = 1;
  facts.report.only_overflows = search.settings().only_overflows;
  facts.left_out = words_about_left_out(search.rank());
  facts.tensors_not_read = search.tensors_not_read();
  facts.trial_ops = search.trial_ops();
  facts.thrown_away = search.thrown_away();
  facts.ran_in_pynative_mode = ran_in_pynative_mode(search.rank());
  if (search.found()) facts.found = found_by(search);
  return facts;
}

}  // namespace sonde
