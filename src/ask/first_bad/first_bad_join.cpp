// The answer about all ranks, from the facts about each.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "ask/first_bad/next_commands.h"
#include "ask/first_bad/searched_ranks.h"
#include "ground/base/text.h"
#include "read/catalog/missing_ranks.h"
#include "read/catalog/step_graph.h"
#include "read/catalog/unfinished_runs.h"
#include "read/operators/op_attributes.h"

namespace sonde {
namespace {

constexpr std::size_t kMostFindings = 5;
constexpr std::size_t kMostSuspects = 16;

void add_suspect(std::string_view name, FirstBad& report) {
  if (name.empty() || report.suspects.size() >= kMostSuspects) return;
  if (std::ranges::find(report.suspects, name) == report.suspects.end()) report.suspects.emplace_back(name);
}

void add_suspects(const ValueFlow& flow, const Root& root, FirstBad& report) {
  const FlowOp& op = flow.ops()[root.op];
  add_suspect(op.op->op_name, report);
  for (const FlowInput& input : op.inputs) {
    if (const FlowOp* maker = flow.graph().maker(input)) add_suspect(maker->op->op_name, report);
  }
  for (std::size_t i = 1; i < std::min<std::size_t>(root.path.size(), 4); ++i) {
    add_suspect(flow.ops()[root.path[i]].op->op_name, report);
  }
}

ContinuedPath continued_in(StepId step, std::size_t first) {
  ContinuedPath path;
  path.graph = step.graph;
  path.step = step.number;
  path.first = static_cast<std::uint32_t>(first);
  return path;
}

// The path of the root to the end of what the flow knows, the step after its own; then that of the step where it harms.
void add_path(RankSearch& search, const Root& root, FirstBad& report) {
  for (const std::uint32_t number : root.path) {
    const FlowOp& op = search.flow().ops()[number];
    if (op.is_next && !report.goes_on) {
      report.goes_on = continued_in(search.rank().steps[search.step_index() + 1].id, report.path.size());
    }
    report.path.emplace_back(op.op->op_name);
  }
  const std::optional<RankSearch::Later>& later = search.later();
  if (!later || (report.goes_on && report.goes_on->step == later->step.number)) return;
  const bool is_joint = !later->path.empty() && report.path.back() == later->path.front();
  if (!report.goes_on) report.goes_on = continued_in(later->step, report.path.size() - (is_joint ? 1 : 0));
  for (const std::string& name : later->path) {
    if (report.path.back() != name) report.path.push_back(name);
  }
}

// The answer, and the other errors in its step.
void add_findings(RankSearch& search, const RankVerdict& verdict, FirstBad& report) {
  SourceTexts sources = sources_of(search.rank());
  for (const Root& root : search.roots()) {
    if (report.findings.size() >= kMostFindings) break;
    Finding finding = finding_with_code(search, root, sources);
    // One write of memory is visible in many places.
    const bool again = !report.findings.empty() && finding.kind == WrongKind::memory_overwritten &&
                       report.findings.front().kind == finding.kind;
    if (!again) report.findings.push_back(std::move(finding));
  }
  Finding& first = report.findings.front();
  first.tags.insert(first.tags.end(), verdict.tags.begin(), verdict.tags.end());
  first.evidence.insert(first.evidence.end(), verdict.evidence.begin(), verdict.evidence.end());
  const Root& root = search.roots().front();
  if (search.made_as_in_next()) {
    const FlowOp& reader = search.flow().ops()[search.roots()[1].op];
    first.evidence.push_back(fmt::format(
        "{} reads equal data that was made before the first step and is not in the dump; it reads the output of this "
        "operator in the next step",
        reader.op->op_name));
  }
  add_path(search, root, report);
  add_suspects(search.flow(), root, report);
  report.reaches = search.later() ? search.later()->reaches : reaches_of(search, root);
  if (search.later()) first.evidence.push_back(search.later()->line);
}

// Ranks may go wrong by themselves, each in its own data.
void add_other_ranks(Searches& searches, SearchedRank& first, const StepOrder& order, FirstBad& report) {
  const auto place_of = [&](const SearchedRank& rank) { return order.place_of(rank.rank(), rank.step().id); };
  report.by_rank.push_back(report.findings.front());
  for (SearchedRank& rank : searches) {
    if (&rank == &first || !rank.found()) continue;
    const RankFacts::Found& found = *rank.facts().found;
    const std::optional<Finding>& own = place_of(rank) > place_of(first) ? found.own_if_later : found.own;
    if (own) report.by_rank.push_back(*own);
  }
}

template <typename Item>
void move_to(std::vector<Item>& all, std::vector<Item>& from) {
  all.insert(all.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  from.clear();
}

std::string fused_kernels_of(const CatalogOp& op) {
  const Attribute* found = attribute_of(op, kFusedKernel);
  return found != nullptr ? found->text : "";
}

}  // namespace

Finding finding_with_code(RankSearch& search, const Root& root, SourceTexts& sources) {
  Finding finding = finding_of(search, root);
  const CatalogOp& op = *search.flow().ops()[root.op].op;
  finding.code = code_of(search.rank(), op, sources);
  if (const std::string kernels = fused_kernels_of(op); !kernels.empty()) {
    finding.evidence.push_back("in the compiled code it is part of " + kernels);
  }
  if (const std::string caller = caller_of(op); !caller.empty()) {
    finding.evidence.push_back("it is called by " + caller);
  }
  return finding;
}

void JoinedAnswer::add_healthy(HealthyInfinity& healthy, std::uint64_t times) {
  const auto known = healthy_.find(slot_of(healthy.tensor));
  if (known != healthy_.end()) return move_to(report_.healthy[known->second].places, healthy.places);
  if (report_.healthy.size() >= kMostHealthy) {
    report_.healthy_left_out += times;
    return;
  }
  healthy_.emplace(slot_of(healthy.tensor), report_.healthy.size());
  report_.healthy.push_back(std::move(healthy));
}

void JoinedAnswer::add(RankFacts& facts) {
  FirstBad& one = facts.report;
  report_.looked_at.ranks += one.looked_at.ranks;
  report_.looked_at.steps += one.looked_at.steps;
  report_.looked_at.ops += one.looked_at.ops;
  report_.looked_at.ops_not_recorded += one.looked_at.ops_not_recorded;
  report_.looked_at.tensors += one.looked_at.tensors;
  report_.looked_at.files_read += one.looked_at.files_read;
  report_.only_overflows = report_.only_overflows || one.only_overflows;
  for (std::string& note : one.notes) {
    if (std::ranges::find(report_.notes, note) == report_.notes.end()) report_.notes.push_back(std::move(note));
  }
  move_to(report_.notes, facts.left_out);
  move_to(report_.expected, one.expected);
  move_to(report_.problems, one.problems);
  one.asides.resize(std::min(one.asides.size(), kMostAsides - report_.asides.size()));
  move_to(report_.asides, one.asides);
  for (std::size_t i = 0; i < one.healthy.size(); ++i) add_healthy(one.healthy[i], facts.healthy_times[i]);
  tensors_not_read_ += facts.tensors_not_read;
  trial_ops_ += facts.trial_ops;
  thrown_away_.results += facts.thrown_away.results;
  thrown_away_.steps += facts.thrown_away.steps;
  if (thrown_away_.first.empty()) thrown_away_.first = facts.thrown_away.first;
  any_in_pynative_mode_ = any_in_pynative_mode_ || facts.ran_in_pynative_mode;
  one = {};
}

void JoinedAnswer::add_notes() {
  if (thrown_away_.results > 0) {
    report_.notes.push_back(fmt::format(
        "{} with NaN or infinities, in {} without gradients before the others, {} used by no operator: not judged; the "
        "first is {}",
        count_text(thrown_away_.results, "result"), count_text(thrown_away_.steps, "run"),
        thrown_away_.results == 1 ? "is" : "are", thrown_away_.first));
  }
  if (trial_ops_ > 0) {
    report_.notes.push_back(fmt::format("{} of a trial run were not judged: the host throws their results away",
                                        count_text(trial_ops_, "operator")));
  }
  if (tensors_not_read_ > 0) {
    report_.notes.push_back(
        fmt::format("{} tensors were not read, by max_overhead: it is not known whether they hold a "
                    "NaN or infinity",
                    tensors_not_read_));
  }
}

FirstBad JoinedAnswer::finish(const Catalog& catalog, Searches& searches) && {
  const bool any = std::ranges::any_of(searches, &SearchedRank::found);
  add_notes();
  // Steps after the end of the recording are not in the dump.
  report_.unfinished = unfinished_runs(catalog, options_.part);
  const bool ended_early = any_ended_early(report_.unfinished);
  report_.complete = !catalog.has_lost() && ((!ended_early && !any_in_pynative_mode_) || any) &&
                     report_.problems.empty() && (tensors_not_read_ == 0 || any) &&
                     (report_.looked_at.tensors > 0 || report_.only_overflows);
  // A rank that is not here may have been bad before the others, too.
  if (!options_.part.rank) std::ranges::move(rank_notes(catalog), std::back_inserter(report_.notes));
  if (!any) return std::move(report_);
  const StepOrder order = order_of(searches);
  const RankVerdict verdict = first_rank(searches, order);
  SearchedRank& first = searches[verdict.first];
  RankSearch& search = first.search();
  search.leave_out(verdict.received);
  add_findings(search, verdict, report_);
  for (Finding& finding : report_.findings) finding.dump = first.rank().dump;
  add_other_ranks(searches, first, order, report_);
  if (options_.trend) {
    SourceTexts sources = sources_of(search.rank());
    report_.growth = growth_before(search, report_.findings.front().kind, sources);
  }
  report_.first = report_.findings.front();
  report_.next_commands = next_commands(catalog, report_);
  return std::move(report_);
}

StepOrder order_of(const Searches& searches) {
  std::vector<const CatalogRank*> ranks;
  for (const SearchedRank& rank : searches) ranks.push_back(&rank.rank());
  return StepOrder(ranks);
}

FirstBad first_bad(const Catalog& catalog, const FirstBadOptions& options) {
  FirstBadOptions again = options;  // a rank is searched again without progress
  again.progress = {};
  Searches searches;
  for (std::size_t number = 0; number < catalog.ranks.size(); ++number) {
    const CatalogRank& rank = catalog.ranks[number];
    if (!options.part.takes(rank)) continue;
    bool is_first_time = true;
    searches.emplace_back(rank, [&, number, is_first_time]() mutable {
      OpenedSearch opened;
      opened.search = std::make_unique<RankSearch>(rank, number, is_first_time ? options : again);
      if (options.source != nullptr) opened.release = [&options, number] { options.source->release(number); };
      is_first_time = false;
      return opened;
    });
  }
  JoinedAnswer answer(options);
  std::optional<StepOrder> order;
  SearchedRank* best = nullptr;  // its search stays open
  for (SearchedRank& rank : searches) {
    rank.look_for_facts();
    answer.add(rank.facts());
    if (rank.found() && !order) order.emplace(order_of(searches));
    const bool is_better = rank.found() && (best == nullptr || first_key(rank, *order) < first_key(*best, *order));
    SearchedRank* const other = is_better ? std::exchange(best, &rank) : &rank;
    if (other != nullptr) other->close();
  }
  return std::move(answer).finish(catalog, searches);
}

}  // namespace sonde
