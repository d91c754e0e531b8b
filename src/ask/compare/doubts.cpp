#include "ask/compare/doubts.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ask/compare/compare_words.h"
#include "read/catalog/slot_text.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

// Not only the side with an op that the other lacks: where it shows, that side has ops without a counterpart as well.
bool has_ops_on_both_sides(const CompareFacts& facts, const CompareFinding& finding) {
  const bool is_inserted = finding.kind == FindingKind::inserted, is_missing = finding.kind == FindingKind::missing;
  if (!is_inserted && !is_missing) return false;
  const CompareSide& other = is_inserted ? facts.golden : facts.target;
  const std::uint32_t at = is_inserted ? finding.op->golden_index : finding.op->target_index;
  return std::ranges::any_of(other.ops[at].inputs, [&](const CompareInput& input) {
    // A detach computes nothing: it is not the other side's way to do what the op does.
    return input.is_read && facts.pairs.is_alone(is_inserted, input.from) &&
           !is_detach(bare_type(other.ops[input.from].op->op_type));
  });
}

// The threads that ran that line in the steps that are known.
std::size_t threads_at_line_of(const CompareSide& side, const CatalogOp& op) {
  if (op.source_file.empty()) return 1;
  std::set<std::uint16_t> threads;
  for (const CatalogStep& step : side.rank->steps) {
    for (const CatalogOp& other : step.ops) {
      if (other.line == op.line && other.source_file == op.source_file && other.phase == op.phase)
        threads.insert(other.thread);
    }
  }
  return threads.size();
}

// The calls of several threads have no fixed order: the golden run may read these data in another call.
void doubt_order_of_threads(const CompareFacts& facts, CompareFinding& finding) {
  const ComparedOp& op = *finding.op;
  if (finding.kind != FindingKind::data || finding.uncertain || op.target.empty() || op.golden.empty()) return;
  const std::size_t threads = std::max(threads_at_line_of(facts.target, *op.target.back()),
                                       threads_at_line_of(facts.golden, *op.golden.back()));
  if (threads < 2) return;
  finding.uncertain = true;
  finding.what += fmt::format(
      "; {} threads run this line, and nothing fixes the order of their calls: the golden run may read these data in "
      "another one (record both with one thread)",
      threads);
}

// The op and its counterpart are called alike, but one of them reads what an op without a counterpart made, in another
// shape: a mask that was applied, an axis that was joined. That op makes the difference.
bool blame_maker_of_shape(const CompareFacts& facts, CompareFinding& finding) {
  const ComparedOp& op = *finding.op;
  if (op.target.size() != 1 || op.golden.size() != 1) return false;
  const CompareOp &left = facts.target.ops[op.target_index], &right = facts.golden.ops[op.golden_index];
  const bool is_alike = left.op->op_type == right.op->op_type && attributes_apart(*left.op, *right.op).empty();
  if (!is_alike || left.inputs.size() != right.inputs.size()) return false;
  for (std::size_t i = 0; i < left.inputs.size(); ++i) {
    const CompareInput &mine = left.inputs[i], &theirs = right.inputs[i];
    const bool in_golden = facts.pairs.is_alone(true, theirs.from);
    if (!mine.is_read || !theirs.is_read || in_golden == facts.pairs.is_alone(false, mine.from)) continue;
    const CatalogTensor &read = *mine.tensor, &golden = *theirs.tensor;
    if (!read.has_shape || !golden.has_shape || read.shape == golden.shape) continue;
    finding.kind = in_golden ? FindingKind::missing : FindingKind::inserted;
    finding.culprit = in_golden ? facts.golden.ops[theirs.from].op : facts.target.ops[mine.from].op;
    finding.in_golden = in_golden;
    finding.what = fmt::format("has no counterpart in the {}, and input.{} of {}{} has shape {}, golden {}: {}",
                               in_golden ? "target" : "golden dump", read.slot, left.op->op_name, line_text(*left.op),
                               shape_text(read.shape, '(', ')'), shape_text(golden.shape, '(', ')'), finding.what);
    return true;
  }
  return false;
}

// `AdamW` of `Default/optimizer-AdamW`, where one line runs it, as `optimizer.step()`; empty: another op, or one of an
// optimizer that the user has written, whose ops have lines of their own.
std::string_view optimizer_of(const CompareSide& side, const CompareOp& op) {
  constexpr std::string_view kMark = "/optimizer-";
  const std::size_t mark = op.scope.find(kMark);
  if (mark == std::string_view::npos || phase_of(*op.op) != Phase::optimizer) return {};
  const bool has_one_line = std::ranges::all_of(side.ops, [&](const CompareOp& other) {
    return other.scope != op.scope || (other.op->line == op.op->line && other.op->source_file == op.op->source_file);
  });
  return has_one_line ? op.scope.substr(mark + kMark.size()) : std::string_view();
}

// Their ops have the same places by chance: the two optimizers themselves are what differs.
bool name_other_optimizer(const CompareFacts& facts, CompareFinding& finding) {
  const std::string_view mine = optimizer_of(facts.target, facts.target.ops[finding.op->target_index]);
  const std::string_view theirs = optimizer_of(facts.golden, facts.golden.ops[finding.op->golden_index]);
  if (mine.empty() || theirs.empty() || mine == theirs) return false;
  finding.what += fmt::format("; it is of {}, and the golden optimizer is {}", mine, theirs);
  return true;
}

// `act` of `Default/network-Net/act-ReLU`, behind its parent, and the class.
struct ModuleOfScope {
  std::string_view place, name;

  explicit ModuleOfScope(std::string_view scope) {
    const std::size_t dash = scope.rfind('-');
    const std::size_t slash = scope.rfind('/');
    if (dash == std::string_view::npos || slash == std::string_view::npos || dash < slash) return;
    place = scope.substr(0, dash);
    name = scope.substr(dash + 1);
  }
};

// "; the module act is a ReLU, …": the other side has a module of another class there; empty: it has not.
std::string replaced_module(const CompareFacts& facts, const CompareFinding& finding) {
  const CompareSide &side = facts.side(finding.in_golden), &other = facts.side(!finding.in_golden);
  const auto culprit = std::ranges::find(side.ops, finding.culprit, &CompareOp::op);
  if (culprit == side.ops.end()) return "";
  const ModuleOfScope own(culprit->scope);
  std::string_view another;
  for (const CompareOp& op : other.ops) {
    const ModuleOfScope theirs(op.scope);
    if (own.place.empty() || theirs.place != own.place) continue;
    if (theirs.name == own.name) return "";
    another = theirs.name;
  }
  if (another.empty()) return "";
  const std::string_view module = own.place.substr(own.place.rfind('/') + 1);
  return fmt::format("; the module {} is of the class {}, in the {} of {}", module, own.name,
                     name_of_other(finding.in_golden), another);
}

}  // namespace

bool rests_on_order(const CompareFacts& facts, const CompareFinding& finding) {
  const ComparedOp& op = *finding.op;
  if (op.target.size() != 1 || op.golden.size() != 1 || finding.certain) return false;
  const bool by_place = finding.kind == FindingKind::op || finding.kind == FindingKind::shape ||
                        finding.kind == FindingKind::wiring || finding.kind == FindingKind::data ||
                        finding.kind == FindingKind::type;
  const OpMatch& match = facts.pairs.match_of(op.target_index);
  return by_place && match.by_order_alone && match.golden == op.golden_index;
}

void note_doubts(const CompareFacts& facts, StepFindings& findings) {
  for (CompareFinding& finding : findings.all()) {
    const ComparedOp& op = *finding.op;
    doubt_order_of_threads(facts, finding);
    if (!finding.uncertain && rests_on_order(facts, finding)) {
      if (name_other_optimizer(facts, finding)) continue;
      finding.doubt(fmt::format("; {} and the golden op were paired by their order alone (--mapping FILE pairs them)",
                                op.target.front()->op_name));
      continue;
    }
    const bool by_place = finding.kind == FindingKind::op || finding.kind == FindingKind::shape;
    if (finding.uncertain || op.target.empty() || op.golden.empty()) continue;
    const bool is_between = has_ops_on_both_sides(facts, finding);
    const bool is_beside = !is_between && by_place && facts.pairs.is_doubtful(op);
    if (!is_between && !is_beside) continue;
    if (const std::string replaced = replaced_module(facts, finding); !replaced.empty()) {
      finding.what += replaced;
      continue;
    }
    if (is_between) {
      finding.doubt(
          "; the other side has ops of its own there, too: perhaps both compute the same (--mapping FILE pairs them)");
      continue;
    }
    if (blame_maker_of_shape(facts, finding)) continue;
    finding.doubt("; or one of the ops around it, which have no counterpart (--all; --mapping FILE pairs them)");
  }
}

}  // namespace sonde
