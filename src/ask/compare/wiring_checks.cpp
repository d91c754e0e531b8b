#include <fmt/format.h>

#include <algorithm>

#include "ask/compare/compare_words.h"
#include "ask/compare/effects.h"
#include "ask/compare/input_checks.h"
#include "read/catalog/slot_text.h"

namespace sonde {
namespace {

constexpr double kShare = 1e-4;  // part of an input's error that its reader shows if it matters

// The spacing of the coarsest type on the way from the golden tensor's type: of two runs in one precision its own.
double spacing_between(const CompareFacts& facts, std::uint32_t from, const TensorDifference& read) {
  double spacing = epsilon_of(read.golden_dtype);
  if (!facts.other_precision) return spacing;
  spacing = std::max(spacing, epsilon_of(read.dtype));
  for (std::uint32_t at = from, steps = 0; at != kNoOp && steps < kLongestChain; ++steps) {
    for (const CatalogTensor* output : facts.target.ops[at].outputs)
      spacing = std::max(spacing, epsilon_of(output->dtype));
    if (facts.pairs.of_target(at) == nullptr || !facts.pairs.of_target(at)->golden.empty()) break;
    at = facts.target.ops[at].inputs.empty() ? kNoOp : facts.target.ops[at].inputs[0].from;
  }
  return spacing;
}

// A sum whose terms cancel: what it gives is rounding in both runs.
bool is_left_over(const CompareFacts& facts, std::uint32_t from, const TensorDifference& read) {
  for (std::size_t i = 0; i < kLongestChain && from != kNoOp && facts.target.ops[from].kind == OpKind::copy; ++i) {
    from = facts.target.ops[from].inputs.empty() ? kNoOp : facts.target.ops[from].inputs.front().from;
  }
  if (from == kNoOp || read.by == ComparedBy::checksum || read.different_non_finite > 0) return false;
  const CompareOp& maker = facts.target.ops[from];
  if (maker.kind != OpKind::reduction && maker.kind != OpKind::contraction) return false;
  std::vector<InputError> terms;
  for (const CompareInput& input : maker.inputs) {
    if (!input.is_read || !input.tensor->recorded()) continue;
    const TensorDifference& own = facts.differences.of(facts.of_target(input.tensor), facts.of_target(input.tensor));
    if (own.comparable() && own.by != ComparedBy::checksum) terms.push_back({&own, input.tensor->slot});
  }
  if (terms.empty()) return false;
  const Allowance allowance = allowance_of(maker.op->op_type, maker.kind, 0, read, terms, 0, facts.options.tolerance);
  return !is_beyond(read, allowance.rounding);
}

// The op that last wrote in place what is read, through views and copies of it; kNoOp: none did.
std::uint32_t writer_in_place(const CompareSide& side, std::uint32_t from) {
  for (std::size_t i = 0; i < kLongestChain && from != kNoOp; ++i) {
    const CompareOp& op = side.ops[from];
    if (op.in_place) return from;
    if (op.kind != OpKind::copy || op.inputs.empty()) return kNoOp;
    from = op.inputs.front().from;
  }
  return kNoOp;
}

// The op without a counterpart that made the memory, as a clone; null: none did.
const CatalogOp* maker_alone(const CompareFacts& facts, bool in_golden, std::uint32_t from) {
  const CompareSide& side = facts.side(in_golden);
  for (std::size_t i = 0; i < kLongestChain && from != kNoOp; ++i) {
    const CompareOp& op = side.ops[from];
    const bool is_alone = in_golden ? facts.pairs.is_free_golden(from) : facts.pairs.is_alone(false, from);
    if (is_alone && !is_view(*op.op)) return op.op;
    if (op.kind != OpKind::copy || op.inputs.empty()) return nullptr;
    from = op.inputs.front().from;
  }
  return nullptr;
}

// Before this op both run one that writes in place, and in one of the two alone it writes what is read here: in the other
// it works on a copy that an op of that run alone makes.
bool report_write_to_copy(const CompareFacts& facts, StepFindings& findings, const ComparedOp& op,
                          const PairedInput& input, const ComparedTensor& shown) {
  const std::uint32_t mine = writer_in_place(facts.target, input.target.input->from);
  const std::uint32_t theirs = writer_in_place(facts.golden, input.golden.input->from);
  const bool in_target = mine != kNoOp;
  if (in_target == (theirs != kNoOp)) return false;
  const ComparedOp* writer = in_target ? facts.pairs.of_target(mine) : facts.pairs.of_golden(theirs);
  if (writer == nullptr || writer->target.size() != 1 || writer->golden.size() != 1) return false;
  if (writer->target_index >= op.target_index || writer->golden_index >= op.golden_index) return false;
  const CompareSide& other = facts.side(in_target);
  const std::vector<CompareInput>& written = other.ops[in_target ? writer->golden_index : writer->target_index].inputs;
  const CatalogOp* maker = written.empty() ? nullptr : maker_alone(facts, in_target, written.front().from);
  if (maker == nullptr) return false;  // it is the reader that reads something else
  const std::string place = fmt::format("what input.{} of {}{} reads", shown.target->slot, op.target.front()->op_name,
                                        line_text(*op.target.front()));
  const std::string elsewhere = fmt::format("what {}{} makes", maker->op_name, line_text(*maker));
  CompareFinding& finding =
      findings.add(FindingKind::wiring, *writer, writer->target.front(), false, nullptr,
                   fmt::format("writes in place {}; in the golden dump it writes {}: {}", in_target ? place : elsewhere,
                               in_target ? elsewhere : place, difference_text(FindingKind::wiring, shown)));
  finding.certain = true;
  return true;
}

void report_wiring(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                   ComparedTensor& shown) {
  const std::uint32_t from = input.target.input->from, theirs = input.golden.input->from;
  const ComparedOp* left = from == kNoOp ? nullptr : facts.pairs.of_target(from);
  const bool inserted = left != nullptr && left->golden.empty();
  const bool missing = theirs != kNoOp && facts.pairs.is_free_golden(theirs);
  const std::string numbers = difference_text(FindingKind::wiring, shown);
  const std::string slot = fmt::format("input.{} of {}", shown.target->slot, op.target.front()->op_name);
  const bool is_resized = !input.difference->same_shape;  // by the op directly before
  const std::uint32_t mine = !inserted ? kNoOp : is_resized ? from : facts.pairs.first_alone_before(false, from);
  // If both have ops of their own here, one that only moves or casts is not the cause of what the other computes.
  const bool is_cast =
      missing && moves_or_casts(facts.golden.ops[theirs].kind);  // what it moves or casts was computed before
  const std::uint32_t other = is_cast && !is_resized ? facts.pairs.first_alone_before(true, theirs) : theirs;
  const bool only_moves = inserted && missing && moves_or_casts(facts.target.ops[mine].kind) &&
                          !moves_or_casts(facts.golden.ops[other].kind);
  const CatalogOp* alone = inserted && !only_moves ? facts.target.ops[mine].op
                           : missing               ? facts.golden.ops[other].op
                                                   : nullptr;
  const bool shows =
      alone != nullptr && !moves_or_casts(kind_of(alone->op_type)) && is_changed_by_addition(facts, op, shown);
  if (inserted && !only_moves) {
    CompareFinding& finding =
        findings.add(FindingKind::inserted, op, facts.target.ops[mine].op, false, &shown,
                     fmt::format("has no counterpart in the golden dump, and changes {}: {}", slot, numbers));
    finding.shows_in_reader = shows;
    finding.certain = is_resized;  // one reads elements that the other does not
    return;
  }
  if (missing) {
    CompareFinding& finding = findings.add(FindingKind::missing, op, facts.golden.ops[other].op, true, &shown,
                                           fmt::format("has no counterpart in the target, which changes {}{}: {}", slot,
                                                       line_text(*op.target.front()), numbers));
    finding.shows_in_reader = shows;
    finding.certain = is_resized;  // one reads elements that the other does not
    return;
  }
  if (left == nullptr && from != kNoOp) return;
  if (report_write_to_copy(facts, findings, op, input, shown)) return;
  const auto place = [](const CompareSide& side, const CompareInput& of) {
    if (of.from == kNoOp) return of.tensor->parameter.empty() ? "outside the step" : std::string(of.tensor->parameter);
    const CompareOp& producer = side.ops[of.from];
    const std::string slot_of = producer.outputs.size() > 1 ? fmt::format(":output.{}", of.from_slot) : "";
    return std::string(producer.op->op_name) + slot_of + line_text(*producer.op);
  };
  CompareFinding& finding = findings.add(
      FindingKind::wiring, op, op.target.front(), false, &shown,
      fmt::format("input.{} comes from {}, in the golden dump from {}: {}", shown.target->slot,
                  place(facts.target, *input.target.input), place(facts.golden, *input.golden.input), numbers));
  finding.certain = left != nullptr && theirs != kNoOp && left == facts.pairs.of_golden(theirs) &&
                    facts.target.ops[from].op->op_type == facts.golden.ops[theirs].op->op_type;
}

}  // namespace

void check_wiring(const CompareFacts& facts, StepFindings& findings, ComparedOp& op, const PairedInput& input,
                  ComparedTensor& shown) {
  const TensorDifference& read = *input.difference;
  if (is_number_rounded(input)) return;  // find_rounding_apart() looks at it
  // Errors known from before may have reached this by another way.
  if (std::max(facts.seen.now, facts.seen.before) >= kMaxExplainable || read.by == ComparedBy::checksum) return;
  // If the result is correct, ops before it belong to the work that the other side does in one op; but two ops of one
  // type that read the same slot read it for the same purpose.
  const bool is_single = op.target.size() == 1 && op.golden.size() == 1;
  const bool in_its_place = is_single && shared_type(op.target[0]->op_type) == shared_type(op.golden[0]->op_type) &&
                            input.target.input->tensor->slot == input.golden.input->tensor->slot;
  double result = 0;
  bool is_finite = true;  // as in the golden dump
  for (const ComparedTensor& output : op.outputs) {
    result = std::max(result, output.difference->relative());
    is_finite = is_finite && output.difference->different_non_finite == 0;
  }
  const bool shows = (op.verdict == OpVerdict::propagated || op.verdict == OpVerdict::introduced) &&
                     (!is_finite || result >= kShare * read.relative());
  if (op.verdict == OpVerdict::identical || (!in_its_place && !shows)) return;
  if (!read.same_shape && op.verdict == OpVerdict::within_tolerance) return;  // what one reads more has no effect
  if (read.same_shape) {
    Bound bound = allowance_of_parameter(read, facts.seen.now, facts.options.tolerance);
    if (!facts.other_precision && epsilon_of(read.dtype) > epsilon_of(read.golden_dtype)) bound = {};
    const std::uint32_t from = input.target.input->from;
    const ComparedOp* left = from == kNoOp ? nullptr : facts.pairs.of_target(from);
    const bool inserted = left != nullptr && left->golden.empty();
    const std::uint32_t theirs = input.golden.input->from;
    const bool missing = theirs != kNoOp && facts.pairs.is_free_golden(theirs);
    const bool in_half = (inserted || missing) && is_changed_by_addition(facts, op, shown);
    if (!in_half && !is_beyond(read, bound)) return;
    if (is_left_over(facts, from, read)) return;
    const bool is_finite_alike = read.different_non_finite == 0;
    if (!in_half && inserted && is_finite_alike && read.relative() <= spacing_between(facts, from, read)) return;
  }
  shown.beyond = true;
  if (!report_new_state(facts, findings, op, input, shown)) report_wiring(facts, findings, op, input, shown);
}

}  // namespace sonde
