// The text for a root: the verdict of the decision tree in docs/first-bad.md, and its evidence.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "ask/first_bad/backward_hint.h"
#include "ask/first_bad/bad_cause.h"
#include "ask/first_bad/counted.h"
#include "ask/first_bad/first_bad_search.h"
#include "ask/first_bad/requests_of_rows.h"
#include "dump/journal/unrecorded.h"
#include "ground/base/text.h"
#include "ground/tensor/number_format.h"
#include "read/catalog/slot_text.h"
#include "read/operators/collective_call.h"
#include "read/operators/earlier_writer.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_questions.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

constexpr std::size_t kPositionsShown = 3;
constexpr std::size_t kSuspectsShown = 3;
constexpr std::size_t kMakersSearched = 32;

std::string health_text(const Health& health) {
  std::vector<std::string> parts;
  const auto add = [&](bool has, std::uint64_t count, const char* name) {
    if (has) parts.push_back(count > 0 ? fmt::format("{} {}", count, name) : std::string(name));
  };
  add(health.nan, health.counts.nan, "NaN");
  add(health.positive_inf, health.counts.positive_inf, "+inf");
  add(health.negative_inf, health.counts.negative_inf, "-inf");
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text.empty() ? "only finite numbers" : text;
}

class FindingWriter {
 public:
  FindingWriter(RankSearch& search, const Root& root)
      : search_(search), flow_(search.flow()), root_(root), op_(flow_.ops()[root.op]) {}

  Finding write() {
    finding_ = finding_at(search_.rank(), search_.step(), *op_.op, root_.tensor);
    finding_.phase = op_.phase;
    if (root_.tensor != nullptr) {
      if (const KnownStatistics* known = search_.health().statistics(*root_.tensor)) {
        finding_.tensor.statistics = *known;
      }
      CountedBad counted = count_bad(search_.rank(), *root_.tensor, finding_.tensor.statistics);
      finding_.tensor.counted = std::move(counted.text);
      finding_.tensor.finite_min = counted.finite_min;
      finding_.tensor.finite_max = counted.finite_max;
    }
    switch (root_.kind) {
      case RootKind::external:
        explain_external();
        break;
      case RootKind::overwritten:
        explain_overwritten();
        break;
      case RootKind::placed:
        explain_placed();
        break;
      case RootKind::created:
      case RootKind::converted:
        explain_made();
        break;
    }
    add_requests();
    add_limits();
    add_tags();
    return std::move(finding_);
  }

 private:
  void explain_external();
  void explain_overwritten();
  void explain_placed();
  void explain_made();
  void explain_unwritten();
  void explain_collective();
  const FlowOp* maker_of_infinities(const FlowInput& input) const;
  void explain_infinities();
  void add_failed_reader();
  void add_positions(const CatalogTensor& tensor);
  void add_requests();
  SlotValues::Want bad_wanted() const {
    return root_.bad == BadKind::nan ? SlotValues::Want::nan : SlotValues::Want::inf;
  }
  // Its readers alone may show it.
  Health health_of_root() const;
  void add_positions();
  bool runs_after_optimizer() const;
  void add_tags();
  void add_limits();
  void add_earlier(std::string_view name);
  std::vector<EarlierWriter> made_before(const CatalogTensor& tensor) const;
  const EarlierWriter& take_before(const std::vector<EarlierWriter>& way);
  std::string place_of(const EarlierWriter& writer) const;

  RankSearch& search_;
  ValueFlow& flow_;
  const Root& root_;
  const FlowOp& op_;
  Finding finding_;
  void explain_scale();
  void explain_tangent();
  void add_origin_of_zero();
  bool add_lost_number(const FlowOp& maker);
  void add_maker_before(const Cause& cause);
  const CatalogTensor* moved_from(const FlowInput& input) const;
  bool holds_zero(const CatalogTensor& tensor) const;
  void add_unknown_makers();

  bool impossible_ = false;
  bool explained_ = false;
  bool doubted_ = false;  // another operator may be to blame: a limit gives the reason
};

Health FindingWriter::health_of_root() const {
  if (root_.tensor != nullptr) return search_.health().of(*root_.tensor);
  return flow_.graph().health_of_value(root_.value);
}

void FindingWriter::add_positions() {
  if (root_.tensor != nullptr) add_positions(*root_.tensor);
}

void FindingWriter::add_positions(const CatalogTensor& tensor) {
  const std::optional<SlotValues> operand = SlotValues::open(search_.rank(), tensor);
  if (!operand || tensor.constant) return;
  for (const Position& place : operand->find(bad_wanted(), kPositionsShown)) {
    finding_.evidence.push_back(fmt::format("{}{} = {}", slot_name(tensor.is_input, tensor.slot), position_text(place),
                                            number_text(operand->at(place))));
  }
}

void FindingWriter::add_requests() {
  if (root_.tensor == nullptr) return;
  for (std::string& line : requests_evidence(search_.rank(), search_.step(), *root_.tensor, bad_wanted())) {
    finding_.evidence.push_back(std::move(line));
  }
}

// The way through earlier steps to who wrote a tensor; empty: nobody in the dump.
std::vector<EarlierWriter> FindingWriter::made_before(const CatalogTensor& tensor) const {
  return way_before(search_.rank(), search_.step_index(), tensor,
                    [&](std::size_t step) { return &search_.step_at(step); });
}

// Into the finding; returns the last writer. `way` is not empty.
const EarlierWriter& FindingWriter::take_before(const std::vector<EarlierWriter>& way) {
  finding_.before = earlier_ops(search_.rank(), way);
  return way.back();
}

// "step 11 (train.py:24)", with another graph's number.
std::string FindingWriter::place_of(const EarlierWriter& writer) const {
  const StepId& id = search_.rank().steps[writer.step].id;
  const std::string graph = id.graph == search_.step().id.graph ? "" : fmt::format(" of graph {}", id.graph);
  return fmt::format("step {}{}{}", id.number, graph, line_text(*writer.op));
}

// Adds the values under this name in the steps before.
void FindingWriter::add_earlier(std::string_view name) {
  const std::uint64_t number = search_.step().id.number;
  for (std::size_t step = search_.step_index(); step-- > 0;) {
    const CatalogStep& earlier = search_.step_at(step);
    for (const CatalogOp& op : earlier.ops) {
      for (const CatalogTensor& tensor : op.tensors) {
        if (tensor.parameter != name) continue;
        const Health& health = search_.health().of(tensor);
        if (!health.known) continue;
        finding_.evidence.push_back(fmt::format("in step {} it contained {}", earlier.id.number, health_text(health)));
        if (!health.bad()) {
          finding_.evidence.push_back(fmt::format("it went bad between its first read in step {} and that in step {}",
                                                  earlier.id.number, number));
        }
        return;
      }
    }
  }
  if (number > 0) {
    finding_.limits.push_back(
        fmt::format("the dump has no earlier step: its cause is before step {}; dump step {}", number, number - 1));
  }
}

void FindingWriter::explain_external() {
  const CatalogTensor& tensor = *root_.tensor;
  const std::string_view name = tensor.parameter;
  const bool is_data = !tensor.parameter.is_parameter();
  finding_.kind = is_data ? WrongKind::bad_input : WrongKind::bad_parameter;
  const std::string what = !name.empty()     ? std::string(name)
                           : tensor.constant ? fmt::format("the number {}", number_text(*tensor.constant))
                                             : "a tensor that came in from outside";
  finding_.why = fmt::format("{} holds {} when {} reads it: nothing in this step made it", what,
                             health_text(search_.health().of(tensor)), op_.op->op_name);
  add_positions(tensor);
  const std::vector<EarlierWriter> before = made_before(tensor);
  if (!before.empty()) {
    const EarlierWriter& maker = take_before(before);
    finding_.evidence.push_back(
        fmt::format("{} {} it in {}", maker.op->op_name, is_data ? "made" : "wrote", place_of(maker)));
  }
  if (!is_data) add_earlier(name);
  if (ran_in_pynative_mode(search_.rank())) {
    doubted_ = true;
    finding_.limits.push_back("what made it ran in PyNative mode, which is not recorded: the fault may be there");
  } else if (is_data && tensor.source != kNoSequence && before.empty()) {
    doubted_ = true;
    finding_.limits.push_back(
        "the operator that made it is not in the dump: it ran in an earlier step, or was not recorded");
  }
}

void FindingWriter::explain_overwritten() {
  const CatalogTensor& read = *root_.tensor;
  const auto input = std::ranges::find(op_.inputs, &read, &FlowInput::tensor);
  const FlowOp* maker = flow_.graph().maker(*input);
  const CatalogTensor* made = flow_.graph().made(*input);
  finding_.kind = WrongKind::memory_overwritten;
  finding_.why = fmt::format("{} wrote {} and {} read {}: something wrote this memory in between, and no operator did",
                             maker->op->op_name, health_text(search_.health().of(*made)), op_.op->op_name,
                             health_text(search_.health().of(read)));
  add_positions(read);
  finding_.evidence.push_back(
      fmt::format("written by {}:{}{}", maker->op->op_name, slot_name(false, made->slot), line_text(*maker->op)));
  std::size_t between = 0;
  for (std::uint32_t op = root_.op; op-- > flow_.graph().index_of(*maker) + 1;) {
    if (++between <= kSuspectsShown) {
      const CatalogOp& suspect = *flow_.ops()[op].op;
      finding_.evidence.push_back(fmt::format("ran in between: {}{}", suspect.op_name, line_text(suspect)));
    }
  }
  if (between > kSuspectsShown) {
    finding_.evidence.push_back(fmt::format("and {} more; `sonde stomp` looks closer", between - kSuspectsShown));
  }
}

void FindingWriter::explain_placed() {
  const Health health = health_of_root();
  if (op_.nature.brings) {
    finding_.kind = WrongKind::bad_input;
    finding_.why = fmt::format("the values that {} brings in hold {}", op_.op->op_type, health_text(health));
    add_positions();
    return;
  }
  finding_.kind = WrongKind::operator_;
  if (!op_.nature.places) {
    finding_.why =
        fmt::format("{} gives {}, and not all of its inputs are known", op_.op->op_type, health_text(health));
    add_unknown_makers();
    add_positions();
    return;
  }
  finding_.why = fmt::format("{} writes {}: that is the value it was given", op_.op->op_type, health_text(health));
  if (root_.bad == BadKind::inf && root_.path.size() > 1) {
    const FlowOp& reader = flow_.ops()[root_.path[1]];
    if (reader.nature.mixes) {
      finding_.why = fmt::format("{} writes {} into memory that {} reads, where an infinity is not a mask",
                                 op_.op->op_type, health_text(health), reader.op->op_name);
      finding_.evidence.push_back(fmt::format("read by {}{}", reader.op->op_name, line_text(*reader.op)));
    }
  }
  for (const FlowInput& input : op_.inputs) {
    if (input.tensor->constant) finding_.numbers.push_back({"value", *input.tensor->constant});
  }
  add_positions();
}

// The operators behind it whose results were not recorded: each of them may be to blame.
void FindingWriter::add_unknown_makers() {
  const FlowOp* op = &op_;
  for (std::size_t shown = 0; op != nullptr && shown < kSuspectsShown; ++shown) {
    const auto unknown = std::ranges::find_if(
        op->inputs, [&](const FlowInput& input) { return input.is_read && !flow_.graph().health_of(input).known; });
    op = unknown == op->inputs.end() ? nullptr : flow_.graph().maker(*unknown);
    if (op != nullptr) {
      finding_.evidence.push_back(fmt::format("not recorded: the result of {}{}", op->op->op_name, line_text(*op->op)));
    }
  }
}

// An error of the op itself, or an effect of the types that it works in.
void FindingWriter::explain_made() {
  if (op_.nature.uninitialised) {
    explain_unwritten();
    return;
  }
  if (op_.nature.collective) {
    explain_collective();
    return;
  }
  if (op_.nature.gives_tangent) {
    explain_tangent();
    return;
  }
  OpValues values(search_.rank(), flow_, op_, root_.tensor, search_.health());
  Cause cause = cause_of(values, root_.bad);
  finding_.kind = cause.overflow ? WrongKind::overflow : WrongKind::operator_;
  finding_.why = std::move(cause.why);
  finding_.numbers = std::move(cause.numbers);
  finding_.evidence = std::move(cause.evidence);
  finding_.limits = std::move(cause.limits);
  impossible_ = cause.impossible;
  explained_ = cause.explained;
  if (cause.impossible) {
    finding_.kind = WrongKind::memory_overwritten;
    finding_.why +=
        "; the memory was written between the recording of its inputs and its run, or the operator is wrong";
  }
  if (root_.lost) {
    const FlowOp& last = flow_.ops()[root_.path.back()];
    finding_.why += fmt::format("; divided by it, what {} gives is zero, although it should not be", last.op->op_name);
    finding_.evidence.push_back(fmt::format("the zeros are made by {}{}", last.op->op_name, line_text(*last.op)));
  }
  if (root_.kind == RootKind::converted) explain_infinities();
  add_failed_reader();
  if (cause.divides_by_zero || cause.pole) add_origin_of_zero();
  add_maker_before(cause);
  if (root_.end == End::scaler && root_.bad == BadKind::inf) explain_scale();
  if (op_.phase == Phase::backward && root_.bad == BadKind::nan) {
    std::string hint = backward_hint(flow_.graph(), op_, cause.makes_nan_of_zero);
    if (!hint.empty()) finding_.evidence.push_back(std::move(hint));
  }
}

void FindingWriter::explain_scale() {
  const std::string why = why_no_scale_helps(search_, root_);
  if (why.empty()) return;
  finding_.evidence.push_back("the loss scaler skipped the step, and no scale helps: " + why);
  doubted_ = doubted_ || is_stuck(search_.skips());
}

void FindingWriter::explain_unwritten() {
  finding_.kind = WrongKind::bad_input;
  finding_.why = fmt::format("{} gives memory without writing it, and not all of it is written before it is read",
                             op_.op->op_type);
  if (root_.path.size() < 2) return;
  const FlowOp& reader = flow_.ops()[root_.path[1]];
  finding_.evidence.push_back(fmt::format("first read by {}{}", reader.op->op_name, line_text(*reader.op)));
}

void FindingWriter::explain_tangent() {
  doubted_ = explained_ = true;
  finding_.kind = WrongKind::operator_;
  finding_.why = fmt::format("a derivative of forward mode holds {}: an operator between make_dual and {} made it",
                             health_text(health_of_root()), op_.op->op_name);
  finding_.limits.emplace_back(
      "which one: the derivatives of forward mode are computed with the values, and not recorded");
  add_positions();
}

bool FindingWriter::holds_zero(const CatalogTensor& tensor) const {
  const KnownStatistics* known = search_.health().statistics(tensor);
  return known != nullptr && (known->zero_count.value_or(0) > 0 || known->min == 0.0 || known->max == 0.0);
}

// The tensor that the input is a view or a copy of.
const CatalogTensor* FindingWriter::moved_from(const FlowInput& input) const {
  const FlowInput* from = &input;
  for (std::size_t depth = 0; depth < kMakersSearched; ++depth) {
    const FlowOp* maker = flow_.graph().maker(*from);
    if (maker == nullptr) break;
    // Which rows are picked, the program says: it did not write a 0 into a table whose padding is 0.
    if (!maker->nature.only_moves || picks_elements(bare_type(maker->op->op_type))) return nullptr;
    const auto read = std::ranges::find_if(maker->inputs, &FlowInput::is_read);
    if (read == maker->inputs.end()) return nullptr;
    from = &*read;
  }
  return from->tensor;
}

// The operator did what it must with a value that was written before this step: a buffer that counts down to 0, a
// parameter that an update made negative. Of several inputs the one that holds the 0 is to blame.
void FindingWriter::add_maker_before(const Cause& cause) {
  const auto is_operand = [](const FlowInput& input) { return input.is_read && !input.tensor->constant; };
  if (!cause.explained || (!cause.divides_by_zero && std::ranges::count_if(op_.inputs, is_operand) != 1)) return;
  for (const FlowInput& input : op_.inputs) {
    if (!is_operand(input) || (cause.divides_by_zero && !holds_zero(*input.tensor))) continue;
    const CatalogTensor* from = moved_from(input);
    if (from == nullptr || !comes_from_before(*from)) continue;
    const std::vector<EarlierWriter> before = made_before(*from);
    if (before.empty()) continue;
    const EarlierWriter& maker = before.back();
    finding_.before = earlier_ops(search_.rank(), before);
    finding_.evidence.push_back(
        fmt::format("{} is {}, which {} wrote in step {}{}", slot_name(true, input.tensor->slot),
                    from->parameter.empty() ? "from before this step" : std::string(from->parameter), maker.op->op_name,
                    search_.rank().steps[maker.step].id.number, line_text(*maker.op)));
    return;
  }
}

// An eps that the type does not hold: 1e-8 is 0 in float16.
bool FindingWriter::add_lost_number(const FlowOp& maker) {
  const OpWork work = work_of(bare_type(maker.op->op_type));
  if (maker.outputs.empty() || (work != OpWork::add && !is_clamp(bare_type(maker.op->op_type)))) return false;
  const CatalogTensor* output = flow_.graph().values()[maker.outputs.front()].tensor;
  const NumberFormat* format = output == nullptr ? nullptr : number_format(output->dtype);
  if (format == nullptr) return false;
  std::optional<double> number = number_in(*maker.op, "min");
  for (const FlowInput& input : maker.inputs) {
    if (!number && input.tensor->constant) number = input.tensor->constant;
  }
  if (!number || !format->loses(std::fabs(*number))) return false;
  finding_.evidence.push_back(fmt::format("{}{} is called with {}, which is 0 in {}: its smallest number above 0 is {}",
                                          maker.op->op_name, line_text(*maker.op), number_text(*number), format->name,
                                          number_text(format->least)));
  return true;
}

// The 0 that it divides by may be what an operator made of an infinity: exp2(log2(0)).
void FindingWriter::add_origin_of_zero() {
  std::vector<const FlowOp*> open = {&op_};
  for (std::size_t at = 0; at < open.size() && at < kMakersSearched; ++at) {
    for (const FlowInput& input : open[at]->inputs) {
      const FlowOp* maker = input.is_read && holds_zero(*input.tensor) ? flow_.graph().maker(input) : nullptr;
      if (maker == nullptr || std::ranges::find(open, maker) != open.end()) continue;
      open.push_back(maker);
      if (add_lost_number(*maker)) return;
      const auto infinite = std::ranges::find_if(maker->inputs, [&](const FlowInput& read) {
        return read.is_read && flow_.graph().health_of(read).inf() && flow_.graph().maker(read) != nullptr;
      });
      if (infinite == maker->inputs.end()) continue;
      const CatalogOp& origin = *flow_.graph().maker(*infinite)->op;
      finding_.evidence.push_back(fmt::format("the 0 is what {} makes of {}, which {}{} gives", maker->op->op_name,
                                              health_text(flow_.graph().health_of(*infinite)), origin.op_name,
                                              line_text(origin)));
      return;
    }
  }
}

void FindingWriter::explain_collective() {
  finding_.kind = WrongKind::collective;
  const std::string got = health_text(health_of_root());
  finding_.why = collective_way(bare_type(op_.op->op_type)) == CollectiveWay::receive
                     ? fmt::format("this rank received {}", got)
                     : fmt::format("this rank gave finite numbers to {} and got {}", op_.op->op_type, got);
  add_positions();
}

// Where infinities come from: an op that reads as many of them put none there.
const FlowOp* FindingWriter::maker_of_infinities(const FlowInput& input) const {
  const FlowOp* maker = flow_.graph().maker(input);
  const Health health = flow_.graph().health_of(input);
  const auto holds_all = [&](const FlowInput& read) {
    const Health own = flow_.graph().health_of(read);
    return read.is_read && own.counts.infinities() > 0 && own.counts.positive_inf == health.counts.positive_inf &&
           own.counts.negative_inf == health.counts.negative_inf;
  };
  for (std::size_t i = 0; i < kMakersSearched && maker != nullptr; ++i) {
    const auto before = std::ranges::find_if(maker->inputs, holds_all);
    if (before == maker->inputs.end() || flow_.graph().maker(*before) == nullptr) break;
    maker = flow_.graph().maker(*before);
  }
  return maker;
}

// A reader that threw, as `multinomial` of NaN does.
void FindingWriter::add_failed_reader() {
  for (const std::uint32_t output : op_.outputs) {
    for (const FlowReader& reader : flow_.graph().values()[output].readers) {
      const CatalogOp& op = *flow_.ops()[reader.op].op;
      if (!op.failed) continue;
      finding_.evidence.push_back(fmt::format("{}{} reads it, and failed", op.op_name, line_text(op)));
      return;
    }
  }
}

void FindingWriter::explain_infinities() {
  for (const FlowInput& input : op_.inputs) {
    if (!input.is_read) continue;
    const Health health = flow_.graph().health_of(input);
    if (!health.inf()) continue;
    const FlowOp* maker = maker_of_infinities(input);
    const std::string from = maker != nullptr ? fmt::format("{}{}", maker->op->op_name, line_text(*maker->op))
                             : !input.tensor->parameter.empty() ? std::string(input.tensor->parameter)
                                                                : "outside";
    const std::string slot = slot_name(input.tensor->is_input, input.tensor->slot);
    finding_.evidence.push_back(fmt::format("{}{} holds {}, which {} put there",
                                            input.is_unsaid ? "kept from forward: " : "", slot, health_text(health),
                                            from));
  }
}

// A step lasts until the model is called again: the next batch may be made in it.
bool FindingWriter::runs_after_optimizer() const {
  const std::span<const FlowOp> before(flow_.ops().data(), root_.op);
  return op_.phase == Phase::outside &&
         std::ranges::any_of(before, [](const FlowOp& op) { return op.phase == Phase::optimizer; });
}

void FindingWriter::add_tags() {
  if (op_.phase == Phase::backward) finding_.tags.emplace_back("backward_only");
  if (op_.phase == Phase::optimizer) finding_.tags.emplace_back("optimizer_only");
  if (runs_after_optimizer()) {
    finding_.tags.emplace_back("after_optimizer");
    finding_.evidence.push_back(fmt::format(
        "it ran after the optimizer of step {}: the program may count it as the next step", search_.step().id.number));
  }
  if (root_.end == End::unknown || impossible_ || flow_.graph().inferred()) doubted_ = true;
  if (doubted_) finding_.tags.emplace_back("uncertain");
}

void FindingWriter::add_limits() {
  const bool is_judged = root_.kind == RootKind::created || root_.kind == RootKind::converted ||
                         (root_.kind == RootKind::placed && !op_.nature.places);
  if (!is_judged) return;
  if (!root_.inputs_known) {
    doubted_ = true;
    finding_.limits.push_back(
        fmt::format("not all inputs of this operator were recorded: the values may have come in through those{}; "
                    "--next-config writes a configuration that records them",
                    unseen_makers_text(flow_.graph(), op_)));
  }
  if (root_.end == End::unknown) {
    finding_.limits.push_back("the results of its readers were not recorded: it may do no harm");
  }
  std::string unread;
  for (const FlowInput& input : op_.inputs) {
    const CatalogTensor* made = flow_.graph().made(input);
    const bool same = made != nullptr && made->content != 0 && made->content == input.tensor->content;
    if (same || (made == nullptr && impossible_ && input.tensor->content != 0)) {
      unread += (unread.empty() ? "" : ", ") + slot_name(true, input.tensor->slot);
    }
  }
  // Where the recorded values explain the result, nothing else wrote it.
  if (unread.empty() || search_.settings().reread || (explained_ && !impossible_)) return;
  finding_.limits.push_back(
      fmt::format("{}: not read again; a write outside the framework would go unnoticed (\"reread\": true)", unread));
}

}  // namespace

Finding finding_of(RankSearch& search, const Root& root) { return FindingWriter(search, root).write(); }

bool ran_in_pynative_mode(const CatalogRank& rank) {
  return std::ranges::any_of(rank.runs, [](const CatalogRun& run) {
    return std::ranges::find(run.notes, NoteKind::pynative, kind_of_note) != run.notes.end();
  });
}

}  // namespace sonde
