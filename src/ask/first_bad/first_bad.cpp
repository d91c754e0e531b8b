#include "ask/first_bad/first_bad.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ask/first_bad/first_bad_search.h"
#include "ask/first_bad/next_commands.h"
#include "ask/first_bad/thrown_away.h"
#include "dump/journal/unrecorded.h"
#include "ground/base/text.h"
#include "read/catalog/step_graph.h"
#include "read/catalog/unfinished_runs.h"
#include "read/operators/collective_call.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr std::size_t kMostFindings = 5;
constexpr std::size_t kMostHealthy = 200;
constexpr std::size_t kMostSuspects = 16;
constexpr std::size_t kMostAsides = 20;

bool any_bad(const CatalogStep& step, HealthReader& health) {
  for (const CatalogOp& op : step.ops) {
    for (const CatalogTensor& tensor : op.tensors) {
      if (health.of(tensor).bad()) return true;
    }
  }
  return false;
}

// Its ops were not read, and need not be.
bool is_known_fine(const CatalogStep& step) {
  return step.ops.empty() && step.sum && step.health && step.health->is_fine;
}

std::string how_of(RootKind kind) {
  switch (kind) {
    case RootKind::placed:
      return "placed";
    case RootKind::external:
      return "from outside";
    default:
      return "computed";
  }
}

// Adds the recording's own words about the steps and operators that max_overhead, or the host, left out.
void add_left_out(const CatalogRank& rank, FirstBad& report) {
  for (const CatalogRun& run : rank.runs) {
    for (const NoteKind about : {NoteKind::overhead, NoteKind::pynative}) {
      const auto last = std::find_if(run.notes.rbegin(), run.notes.rend(),
                                     [&](const std::string& note) { return kind_of_note(note) == about; });
      if (last != run.notes.rend()) report.notes.push_back(*last);
    }
  }
}

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

void add_path(const ValueFlow& flow, const Root& root, FirstBad& report) {
  for (const std::uint32_t op : root.path) report.path.emplace_back(flow.ops()[op].op->op_name);
}

std::string fused_kernels_of(const CatalogOp& op) {
  const Attribute* found = attribute_of(op, kFusedKernel);
  return found != nullptr ? found->text : "";
}

Finding with_code(RankSearch& search, const Root& root, SourceTexts& sources) {
  Finding finding = finding_of(search, root);
  const CatalogOp& op = *search.flow().ops()[root.op].op;
  finding.code = code_of(op, sources);
  if (const std::string kernels = fused_kernels_of(op); !kernels.empty()) {
    finding.evidence.push_back("in the compiled code it is part of " + kernels);
  }
  if (const std::string caller = caller_of(op); !caller.empty()) {
    finding.evidence.push_back("it is called by " + caller);
  }
  return finding;
}

// The answer, and the other errors in its step.
void add_findings(RankSearch& search, const RankVerdict& verdict, FirstBad& report) {
  SourceTexts sources = sources_of(search.rank());
  for (const Root& root : search.roots()) {
    if (report.findings.size() >= kMostFindings) break;
    Finding finding = with_code(search, root, sources);
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
  add_path(search.flow(), root, report);
  add_suspects(search.flow(), root, report);
  report.reaches = search.later() ? search.later()->reaches : reaches_of(search, root);
  if (const auto& later = search.later()) {
    first.evidence.push_back(later->line);
    for (const std::string& name : later->path) {
      if (report.path.back() != name) report.path.push_back(name);
    }
  }
}

// Ranks may go wrong by themselves, each in its own data.
void add_other_ranks(std::vector<std::unique_ptr<RankSearch>>& searches, const RankSearch& first,
                     const StepOrder& order, FirstBad& report) {
  report.by_rank.push_back(report.findings.front());
  for (const std::unique_ptr<RankSearch>& search : searches) {
    if (search.get() == &first) continue;
    const Root* root = own_root(*search, first, order);
    if (root == nullptr) continue;
    SourceTexts sources = sources_of(search->rank());
    report.by_rank.push_back(with_code(*search, *root, sources));
  }
}

// Skips roots with an op and bad kind already reported: NaN and infinity of one op are one story.
std::vector<Root> distinct(const std::vector<Root>& roots) {
  std::vector<Root> kept;
  std::set<std::uint32_t> ops;
  for (const Root& root : roots) {
    if (!root.aside && ops.insert(root.op).second) kept.push_back(root);
  }
  return kept;
}

// "0-2|5": steps as `--step` takes them, in the order of the run. Adds one to the text.
void add_step(std::string& steps, std::uint64_t step) {
  const std::size_t begin = steps.find_last_of("|-") + 1;  // 0 without one
  const std::uint64_t last = std::stoull(steps.substr(begin));
  if (step == last) return;
  if (step != last + 1) {
    steps += fmt::format("|{}", step);
  } else if (begin > 0 && steps[begin - 1] == '-') {
    steps.replace(begin, std::string::npos, std::to_string(step));
  } else {
    steps += fmt::format("-{}", step);
  }
}

void add_place(HealthyInfinity& healthy, const CatalogRank& rank, StepId step) {
  for (HealthyPlace& place : healthy.places) {
    if (place.rank != rank.rank || place.dump != rank.dump || place.graph != step.graph) continue;
    return add_step(place.steps, step.number);
  }
  healthy.places.push_back({rank.rank, rank.dump, step.graph, std::to_string(step.number)});
}

}  // namespace

RankSearch::RankSearch(const CatalogRank& rank, std::size_t number, const FirstBadOptions& options)
    : rank_(rank), number_(number), options_(options), settings_(settings_of(rank)), health_(rank, options.threads) {}

void RankSearch::run(FirstBad& report) {
  for (std::size_t step = 0; step < rank_.steps.size(); ++step) {
    if (!options_.part.takes(rank_.steps[step])) continue;
    if (options_.progress) options_.progress(step + 1, rank_.steps.size());
    if (look_at(step, report)) break;
  }
  report.looked_at.files_read += health_.files_read();
  for (const CatalogProblem& problem : health_.problems()) report.problems.push_back({problem.path, problem.message});
}

const CatalogStep& RankSearch::step_at(std::size_t index) {
  if (options_.source != nullptr) options_.source->read_ops(number_, index);
  return rank_.steps[index];
}

void RankSearch::each_output(std::size_t index, const std::function<void(const OutputSize&)>& take) const {
  if (options_.source != nullptr) return options_.source->each_output(number_, index, take);
  const std::vector<CatalogOp>& ops = rank_.steps[index].ops;
  for (std::size_t place = 0; place < ops.size(); ++place) {
    for (std::size_t position = 0; position < ops[place].tensors.size(); ++position) {
      const CatalogTensor& tensor = ops[place].tensors[position];
      if (tensor.is_input || !tensor.statistics || !is_floating(tensor.dtype)) continue;
      const KnownStatistics& known = *tensor.statistics;
      take({ops[place].op_name, place, position, tensor.slot, known.max, known.min, known.l2norm});
    }
  }
}

const LossPlaces& RankSearch::losses() {
  if (losses_) return *losses_;
  if (options_.source == nullptr) return losses_.emplace(loss_places(rank_));
  Result<Catalog> makers = options_.source->with_makers(number_, begins_backward);
  if (makers) loss_makers_ = std::move(*makers);
  return losses_.emplace(loss_makers_ ? loss_places(loss_makers_->ranks[number_]) : LossPlaces());
}

std::unique_ptr<ValueFlow> RankSearch::flow_of(std::size_t index) {
  ValueFlow::Options options;
  options.only_overflows = settings_.only_overflows;
  options.losses = &losses();
  // Other tools read inputs after the operator has run.
  options.inputs_before = rank_.has_journal && !settings_.inputs_after;
  const bool has_next = index + 1 < rank_.steps.size() && rank_.steps[index + 1].run == rank_.steps[index].run;
  if (rank_.has_journal && has_next) step_at(index + 1);
  return std::make_unique<ValueFlow>(rank_, index, health_, options);
}

bool RankSearch::look_at(std::size_t index, FirstBad& report) {
  const CatalogStep& step = rank_.steps[index];
  if (is_known_fine(step)) {
    if (step.id.graph == 0) skips_ = {};
    ++report.looked_at.steps;
    report.looked_at.ops += step.sum->ops;
    report.looked_at.ops_not_recorded += step.health->not_recorded;
    report.looked_at.tensors += step.health->known;
    return false;
  }
  step_at(index);
  health_.prepare(step.ops);
  ++report.looked_at.steps;
  report.looked_at.ops += static_cast<std::uint64_t>(std::ranges::count(step.ops, false, &CatalogOp::is_parameter));
  for (const CatalogOp& op : step.ops) {
    const bool any = std::ranges::any_of(op.tensors, [](const CatalogTensor& tensor) { return tensor.recorded(); });
    const bool is_trial = std::ranges::any_of(
        op.tensors, [](const CatalogTensor& tensor) { return tensor.skipped.reason == NotRead::trial; });
    trial_ops_ += is_trial ? 1 : 0;
    report.looked_at.ops_not_recorded += !is_trial && !op.is_parameter && !any && !op.tensors.empty() ? 1 : 0;
    report.looked_at.tensors += static_cast<std::uint64_t>(
        std::ranges::count_if(op.tensors, [&](const CatalogTensor& tensor) { return health_.of(tensor).known; }));
    tensors_not_read_ += static_cast<std::uint64_t>(std::ranges::count_if(
        op.tensors, [](const CatalogTensor& tensor) { return tensor.skipped.reason == NotRead::by_overhead; }));
  }
  if (!any_bad(step, health_)) {
    if (step.id.graph == 0) skips_ = {};
    return false;
  }
  std::unique_ptr<ValueFlow> flow = flow_of(index);
  if (flow->graph().inferred()) {
    const std::string note = fmt::format(
        "rank {}: the dump records no complete data flow; it was inferred from equal values and the order of execution",
        rank_.rank);
    if (std::ranges::find(report.notes, note) == report.notes.end()) report.notes.push_back(note);
  }
  note_healthy(*flow, step, report);
  roots_ = distinct(flow->roots().roots());
  step_ = index;
  flow_ = std::move(flow);
  leave_out_thrown_away();
  count_skips(*flow_, step);
  note_expected(report);
  note_asides(report);
  find_maker_of_data();
  if (roots_.empty()) {
    flow_.reset();
    return false;
  }
  follow_into_earlier_step(report);
  return true;
}

void RankSearch::count_skips(const ValueFlow& flow, const CatalogStep& step) {
  if (!flow.scaler_skipped()) {
    if (step.id.graph == 0) skips_ = {};
    return;
  }
  if (skips_.count++ == 0) skips_.first_step = step.id.number;
  skips_.scale = flow_->loss_scale();
}

// An infinity caused only by a loss scale that is too large. NaN that was not made from an infinity would appear with
// any scale.
bool RankSearch::is_expected(const Root& root) {
  return root.end == End::scaler && root.bad == BadKind::inf && why_no_scale_helps(*this, root).empty();
}

// Takes the expected ones out of the roots.
void RankSearch::note_expected(FirstBad& report) {
  SourceTexts sources = sources_of(rank_);
  const auto expected =
      std::stable_partition(roots_.begin(), roots_.end(), [&](const Root& root) { return !is_expected(root); });
  if (expected != roots_.end()) {
    Finding finding = finding_of(*this, *expected);
    finding.severity = Severity::note;
    finding.kind = WrongKind::scaler_skipped;
    finding.code = code_of(*flow_->ops()[expected->op].op, sources);
    report.expected.push_back(std::move(finding));
  }
  roots_.erase(expected, roots_.end());
}

void RankSearch::note_asides(FirstBad& report) {
  SourceTexts sources = sources_of(rank_);
  for (const Root& root : flow_->roots().roots()) {
    if (!root.aside || report.asides.size() >= kMostAsides) continue;
    // Values that the operator leaves elsewhere, as in the memory that a collective works in, is the same story.
    const auto is_same = [&](const Root& other) { return !other.aside && other.op == root.op; };
    if (std::ranges::any_of(flow_->roots().roots(), is_same)) continue;
    Finding finding = finding_of(*this, root);
    finding.severity = Severity::note;
    finding.tags.emplace_back("aside");
    finding.code = code_of(*flow_->ops()[root.op].op, sources);
    report.asides.push_back(std::move(finding));
  }
}

void RankSearch::leave_out(const std::vector<std::uint32_t>& ops) {
  std::erase_if(roots_, [&](const Root& root) { return std::ranges::count(ops, root.op) > 0; });
}

void RankSearch::leave_out_thrown_away() {
  const std::uint64_t before = thrown_away_.results;
  std::erase_if(roots_, [&](const Root& root) {
    if (!is_thrown_away(*this, root)) return false;
    const CatalogOp& op = *flow_->ops()[root.op].op;
    if (thrown_away_.first.empty()) {
      thrown_away_.first = op.op_name;
      if (op.line != 0) thrown_away_.first += fmt::format(" ({}:{})", op.source_file, op.line);
    }
    ++thrown_away_.results;
    return true;
  });
  thrown_away_.steps += thrown_away_.results > before ? 1 : 0;
}

// A value that did no harm in its own step (an aside, a state that a loop carries on) does it here: its maker is to
// blame, not the operator that reads it first.
void RankSearch::follow_into_earlier_step(FirstBad& report) {
  const Root front = roots_.front();
  if (front.kind != RootKind::external || !rank_.has_journal || front.tensor->source == kNoSequence) return;
  for (std::size_t index = step_; index-- > 0;) {
    if (rank_.steps[index].run != rank_.steps[step_].run) continue;
    const CatalogStep& step = step_at(index);
    const bool is_maker = std::ranges::any_of(
        step.ops, [&](const CatalogOp& op) { return !op.is_parameter && op.sequence == front.tensor->source; });
    if (!is_maker) continue;
    std::unique_ptr<ValueFlow> flow = flow_of(index);
    const Root* root = flow->roots().root_of(front.tensor->source, front.tensor->source_slot);
    if (root == nullptr) return;
    const CatalogOp& reader = *flow_->ops()[front.op].op;
    Later later{rank_.steps[step_].id, reaches_of(*this, front), {}, ""};
    for (const std::uint32_t op : front.path) later.path.emplace_back(flow_->ops()[op].op->op_name);
    later.line = fmt::format("{} of step {} reads it", reader.op_name, later.step.number);
    later_ = std::move(later);
    roots_ = {*root};
    roots_.front().aside = false;
    roots_.front().end = front.end;
    flow_ = std::move(flow);
    step_ = index;
    std::erase_if(report.asides, [&](const Finding& aside) {
      return aside.rank == rank_.rank && aside.dump == rank_.dump && step_of(aside) == step.id &&
             aside.tensor.op_name == flow_->ops()[roots_.front().op].op->op_name;
    });
    return;
  }
}

// The maker of the first batch runs before the first step and is not in the dump; the maker of the second is.
void RankSearch::find_maker_of_data() {
  made_as_in_next_ = false;
  if (roots_.size() < 2 || roots_.front().kind != RootKind::external) return;
  const CatalogTensor& data = *roots_.front().tensor;
  if (data.parameter.kind != NameKind::none && data.parameter.kind != NameKind::data) return;
  const std::string_view reader = flow_->ops()[roots_.front().op].op->op_name;
  const auto maker = std::ranges::find_if(roots_, [&](const Root& root) {
    return root.kind != RootKind::external && flow_->roots().reaches_next(root, reader, data.slot);
  });
  if (maker == roots_.end()) return;
  std::rotate(roots_.begin(), maker, maker + 1);
  made_as_in_next_ = true;
}

void RankSearch::note_healthy(const ValueFlow& flow, const CatalogStep& step, FirstBad& report) {
  SourceTexts sources = sources_of(rank_);
  for (const Root& root : flow.roots().healthy()) {
    const FlowOp& op = flow.ops()[root.op];
    if (root.tensor == nullptr || op.nature.uninitialised) continue;
    // It is not a removed mask: its readers give NaN because of another input.
    if ((root.drowned && root.absorbed_by.empty()) || root.harms) continue;
    const auto is_same = [&](const Root& other) { return other.value == root.value && !other.aside; };
    if (std::ranges::any_of(flow.roots().roots(), is_same)) continue;
    FindingTensor tensor = finding_tensor(rank_, *op.op, *root.tensor);
    if (const KnownStatistics* known = health_.statistics(*root.tensor)) tensor.statistics = *known;
    const auto known_one = std::ranges::find_if(report.healthy, [&](const HealthyInfinity& other) {
      return other.tensor.op_name == tensor.op_name && other.tensor.side == tensor.side &&
             other.tensor.slot == tensor.slot;
    });
    if (known_one != report.healthy.end()) {
      add_place(*known_one, rank_, step.id);
      continue;
    }
    if (report.healthy.size() >= kMostHealthy) {
      ++report.healthy_left_out;
      continue;
    }
    HealthyInfinity& healthy = report.healthy.emplace_back();
    healthy.tensor = std::move(tensor);
    healthy.rank = rank_.rank;
    healthy.graph = step.id.graph;
    healthy.step = step.id.number;
    add_place(healthy, rank_, step.id);
    healthy.code = code_of(*op.op, sources, 0);
    healthy.how = how_of(root.kind);
    for (const std::uint32_t absorber : root.absorbed_by) {
      healthy.absorbed_by.emplace_back(flow.ops()[absorber].op->op_name);
    }
  }
}

FirstBad first_bad(const Catalog& catalog, const FirstBadOptions& options) {
  FirstBad report;
  std::vector<std::unique_ptr<RankSearch>> searches;
  for (std::size_t number = 0; number < catalog.ranks.size(); ++number) {
    const CatalogRank& rank = catalog.ranks[number];
    if (!options.part.takes(rank)) continue;
    ++report.looked_at.ranks;
    searches.push_back(std::make_unique<RankSearch>(rank, number, options));
    searches.back()->run(report);
    add_left_out(rank, report);
    report.only_overflows = report.only_overflows || searches.back()->settings().only_overflows;
  }
  const bool any = std::ranges::any_of(searches, [](const auto& search) { return search->found(); });
  std::uint64_t not_read = 0, trial_ops = 0;
  RankSearch::ThrownAway thrown_away;
  for (const auto& search : searches) {
    not_read += search->tensors_not_read();
    trial_ops += search->trial_ops();
    const RankSearch::ThrownAway& one = search->thrown_away();
    thrown_away.results += one.results;
    thrown_away.steps += one.steps;
    if (thrown_away.first.empty()) thrown_away.first = one.first;
  }
  if (thrown_away.results > 0) {
    report.notes.push_back(fmt::format(
        "{} with NaN or infinities, in {} without gradients before the others, {} used by no operator: not judged; the "
        "first is {}",
        count_text(thrown_away.results, "result"), count_text(thrown_away.steps, "run"),
        thrown_away.results == 1 ? "is" : "are", thrown_away.first));
  }
  if (trial_ops > 0) {
    report.notes.push_back(fmt::format("{} of a trial run were not judged: the host throws their results away",
                                       count_text(trial_ops, "operator")));
  }
  if (not_read > 0) {
    report.notes.push_back(
        fmt::format("{} tensors were not read, by max_overhead: it is not known whether they hold a "
                    "NaN or infinity",
                    not_read));
  }
  // Steps after the end of the recording are not in the dump.
  report.unfinished = unfinished_runs(catalog, options.part);
  const bool ended_early = any_ended_early(report.unfinished);
  const bool all_ran_compiled =
      std::ranges::none_of(searches, [](const auto& search) { return ran_in_pynative_mode(search->rank()); });
  report.complete = !catalog.has_lost() && ((!ended_early && all_ran_compiled) || any) && report.problems.empty() &&
                    (not_read == 0 || any) && (report.looked_at.tensors > 0 || report.only_overflows);
  if (!any) return report;
  std::vector<const CatalogRank*> ranks;
  for (const auto& search : searches) ranks.push_back(&search->rank());
  const StepOrder order(ranks);
  const RankVerdict verdict = first_rank(searches, order);
  RankSearch& first = *searches[verdict.first];
  first.leave_out(verdict.received);
  add_findings(first, verdict, report);
  add_other_ranks(searches, first, order, report);
  if (options.trend) {
    SourceTexts sources = sources_of(first.rank());
    report.growth = growth_before(first, sources);
  }
  report.first = report.findings.front();
  report.next_commands = next_commands(catalog, report);
  return report;
}

}  // namespace sonde
