#include "ask/first_bad/first_bad.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ask/first_bad/first_bad_search.h"
#include "ask/first_bad/searched_ranks.h"
#include "ask/first_bad/thrown_away.h"
#include "ground/base/text.h"
#include "read/catalog/step_graph.h"
#include "read/operators/collective_call.h"
#include "read/operators/earlier_writer.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

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

void RankSearch::run(RankFacts& facts) {
  for (std::size_t step = 0; step < rank_.steps.size(); ++step) {
    if (!options_.part.takes(rank_.steps[step])) continue;
    if (options_.progress) options_.progress(step + 1, rank_.steps.size());
    if (look_at(step, facts)) break;
  }
  FirstBad& report = facts.report;
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

// overflow_number ends the recording: later operators of the step in which it did may have overflowed, too.
std::size_t RankSearch::steps_with_all_overflows() {
  if (all_overflows_) return *all_overflows_;
  const auto is_output = [](const CatalogTensor& tensor) { return !tensor.is_input && tensor.recorded(); };
  const auto overflowed = [&](const CatalogOp& op) { return std::ranges::any_of(op.tensors, is_output); };
  std::size_t step = 0, found = 0;
  for (; settings_.overflow_number > 0 && step < rank_.steps.size(); ++step) {
    found += static_cast<std::size_t>(std::ranges::count_if(step_at(step).ops, overflowed));
    if (found >= settings_.overflow_number) break;
  }
  return all_overflows_.emplace(settings_.overflow_number > 0 ? step : rank_.steps.size());
}

std::unique_ptr<ValueFlow> RankSearch::flow_of(std::size_t index) {
  ValueFlow::Options options;
  options.only_overflows = settings_.only_overflows && index < steps_with_all_overflows();
  options.losses = &losses();
  // Other tools read inputs after the operator has run.
  options.inputs_before = rank_.has_journal && !settings_.inputs_after;
  const bool has_next = index + 1 < rank_.steps.size() && rank_.steps[index + 1].run == rank_.steps[index].run;
  if (rank_.has_journal && has_next) step_at(index + 1);
  return std::make_unique<ValueFlow>(rank_, index, health_, options);
}

bool RankSearch::look_at(std::size_t index, RankFacts& facts) {
  FirstBad& report = facts.report;
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
  note_healthy(*flow, step, facts);
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
    finding.code = code_of(rank_, *flow_->ops()[expected->op].op, sources);
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
    finding.code = code_of(rank_, *flow_->ops()[root.op].op, sources);
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

// A value that did no harm in its own step (an aside, a state that a loop carries on, the result of a model without
// gradients) does it here: its maker is to blame, not the operator that reads it first.
void RankSearch::follow_into_earlier_step(FirstBad& report) {
  const Root front = roots_.front();
  if (front.kind != RootKind::external || !rank_.has_journal || front.tensor->source == kNoSequence) return;
  const auto with_ops = [this](std::size_t step) { return &step_at(step); };
  const std::optional<EarlierWriter> maker = writer_before(rank_, step_, *front.tensor, with_ops);
  if (!maker || maker->op->is_parameter) return;
  const CatalogStep& step = step_at(maker->step);
  std::unique_ptr<ValueFlow> flow = flow_of(maker->step);
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
  step_ = maker->step;
  std::erase_if(report.asides, [&](const Finding& aside) {
    return aside.rank == rank_.rank && aside.dump == rank_.dump && step_of(aside) == step.id &&
           aside.tensor.op_name == flow_->ops()[roots_.front().op].op->op_name;
  });
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

void RankSearch::note_healthy(const ValueFlow& flow, const CatalogStep& step, RankFacts& facts) {
  SourceTexts sources = sources_of(rank_);
  std::vector<HealthyInfinity>& all = facts.report.healthy;
  for (const Root& root : flow.roots().healthy()) {
    const FlowOp& op = flow.ops()[root.op];
    if (root.tensor == nullptr || op.nature.uninitialised) continue;
    // It is not a removed mask: its readers give NaN because of another input.
    if ((root.drowned && root.absorbed_by.empty()) || root.harms) continue;
    const auto is_same = [&](const Root& other) { return other.value == root.value && !other.aside; };
    if (std::ranges::any_of(flow.roots().roots(), is_same)) continue;
    FindingTensor tensor = finding_tensor(rank_, *op.op, *root.tensor);
    if (const KnownStatistics* statistics = health_.statistics(*root.tensor)) tensor.statistics = *statistics;
    const auto [known, is_new] = healthy_.try_emplace(slot_of(tensor), all.size());
    if (!is_new) {
      ++facts.healthy_times[known->second];
      add_place(all[known->second], rank_, step.id);
      continue;
    }
    const bool is_shown = all.size() < kMostHealthy;
    HealthyInfinity& healthy = all.emplace_back();
    facts.healthy_times.push_back(1);
    add_place(healthy, rank_, step.id);
    if (!is_shown) {
      healthy.tensor.op_name = tensor.op_name;
      healthy.tensor.side = tensor.side;
      healthy.tensor.slot = tensor.slot;
      continue;
    }
    healthy.tensor = std::move(tensor);
    healthy.rank = rank_.rank;
    healthy.graph = step.id.graph;
    healthy.step = step.id.number;
    healthy.code = code_of(rank_, *op.op, sources, 0);
    healthy.how = how_of(root.kind);
    for (const std::uint32_t absorber : root.absorbed_by) {
      healthy.absorbed_by.emplace_back(flow.ops()[absorber].op->op_name);
    }
  }
}

}  // namespace sonde
