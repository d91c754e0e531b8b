// Compares two dumps op by op: finds the ops that add an error beyond their rounding, and those that only pass it on.
//
//   Result<DumpComparison> found = compare_dumps(target, golden, {});
//   if (!found.findings.empty()) ... found.findings.front() is the earliest error
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ask/compare/compare_side.h"
#include "ask/compare/match_ops.h"
#include "ask/compare/parameter_layout.h"
#include "ask/compare/tolerance.h"
#include "read/catalog/catalog.h"
#include "read/catalog/dump_part.h"
#include "read/measure/tensor_difference.h"
#include "sonde/answers.h"
#include "sonde/findings.h"

namespace sonde {

enum class OpVerdict : std::uint8_t {
  identical,         // to the last bit
  within_tolerance,  // as far apart as rounding explains
  propagated,        // as far apart as the errors of its inputs explain
  introduced,        // a finding: the op itself computes something else, or reads something else
  unmatched,         // without a counterpart
  unknown,           // nothing to compare
};
std::string_view word_of(OpVerdict verdict);

// One slot of the target's op and the corresponding golden slot.
struct ComparedTensor {
  const CatalogTensor* target = nullptr;
  const CatalogTensor* golden = nullptr;
  const TensorDifference* difference = nullptr;  // null: nothing to compare
  Allowance allowance;                           // of outputs
  bool beyond = false;                           // more than is allowed
  std::string note;                              // "the golden one is transposed"
};

struct ComparedOp {
  std::uint32_t target_index = kNoOp, golden_index = kNoOp;  // in the sides' ops
  // Ops that are equivalent together: one op, or several that the other side does in one op. In order.
  std::vector<const CatalogOp*> target, golden;  // empty: no counterpart
  MatchedBy how = MatchedBy::nothing;
  OpKind kind = OpKind::other;
  OpVerdict verdict = OpVerdict::unknown;
  std::vector<ComparedTensor> inputs, outputs;
  std::string reason;                                                 // for people: the finding, or why there is none
  Nearest nearest;                                                    // for an op without a counterpart
  bool is_alone() const { return target.empty() || golden.empty(); }  // without a counterpart, whatever its verdict
  const ComparedTensor* worst_output() const;  // the furthest beyond its allowance; null without outputs
};

enum class FindingKind : std::uint8_t {
  op,          // an op adds an error
  parameter,   // a parameter has other values
  data,        // data from outside has other values
  number,      // the program calls an op with another number
  inserted,    // an op without a counterpart changes inputs of other ops
  missing,     // the golden dump has an op that changes inputs of other ops
  wiring,      // an op reads another tensor
  shape,       // an op gives another shape
  non_finite,  // NaN or infinity on one side
  type,        // an op gives a coarser type
  changed,     // a tensor changed between the op that wrote it and the one that reads it
};
std::string_view word_of(FindingKind kind);

struct CompareFinding {
  FindingKind kind = FindingKind::op;
  std::size_t step = 0;                // index into DumpComparison::steps
  const ComparedOp* op = nullptr;      // the op that shows it
  const CatalogOp* culprit = nullptr;  // the op to look at: of the target, of the golden dump where `in_golden`
  bool in_golden = false;
  const ComparedTensor* tensor = nullptr;  // the slot that shows it; null: none
  std::string name;                        // of a state that an optimizer keeps: "state exp_avg of fc.weight"
  std::string what;                        // "adds 0.0227 relative error (…)"
  std::uint32_t place = 0;                 // in the order of the target's ops
  bool uncertain = false;                  // `what` says how to find out
  std::optional<std::size_t> sure_part;    // of `what`: up to the doubts that other evidence can settle
  bool exchanged = false;                  // the parameter holds the values of another golden one
  bool certain = false;                    // in any case: two outputs of one op were exchanged
  bool shows_in_reader = false;            // an op of one side alone: what its reader gives is more than rounding apart
  bool of_other_batches = false;           // the batches are cut in another way: it shows where gradients are read
  std::optional<double> factor;            // the target's tensor is so many times the golden one

  // `why` ends the sentence in `what`.
  void doubt(std::string_view why) {
    if (!sure_part) sure_part = what.size();
    uncertain = true;
    what += why;
  }
};

struct ComparedStep {
  const CompareSide& side(bool in_golden) const { return in_golden ? *golden : *target; }

  std::shared_ptr<CompareSide> target, golden;
  std::shared_ptr<Differences> differences;
  std::deque<ComparedOp> ops;              // in the target's order, then golden ones without a counterpart
  std::deque<TensorDifference> joined;     // of tensors that ranks have in parts (ask/unsharded)
  double largest_relative = 0;             // of outputs, within and beyond their allowance
  std::vector<std::string> notes;          // data that could not be compared
  std::vector<std::string> notes_of_both;  // differences between the two that are not errors
};

// A golden tensor with its place.
struct PlacedGolden {
  std::uint32_t rank = 0;
  StepId step;
  const CatalogTensor* tensor = nullptr;
  const CatalogOp* op = nullptr;  // that made it; null: it comes from outside
};

// Of two implementations: how a tensor of the target is made from golden ones.
struct RelatedTensor {
  std::uint32_t step = 0;  // index into DumpComparison::steps
  const CatalogTensor* tensor = nullptr;
  const CatalogOp* op = nullptr;  // that made it; null: it comes from outside
  RelationKind relation = RelationKind::none;
  std::string golden;                            // "0 to 31 of axis 0 = q_proj.weight, …"
  std::vector<PlacedGolden> golden_tensors;      // the first of them, each once
  const TensorDifference* difference = nullptr;  // null: it corresponds to nothing
};

// The state after earlier steps of a rank.
struct RankHistory {
  struct State {
    Bound apart;                            // its distance from the golden one
    const CatalogTensor* golden = nullptr;  // as read in that step
    const CatalogRank* rank = nullptr;
    bool judged = false;                 // `apart` was measured
    std::uint64_t writer = kNoSequence;  // of the golden run: `apart` is of what this op left
  };
  double seen = 0;  // the largest relative error
  std::optional<std::uint64_t> step;
  bool other_optimizer = false;
  bool found = false;                                // a step has a finding
  std::map<std::string, State, std::less<>> states;  // by the names of parameters and states
  // Sorted: what the ops of the last step made, and how far apart it is. A state that is made in one step has its name in the
  // next.
  struct Made {
    std::pair<std::uint64_t, std::uint32_t> by;  // the golden op's sequence number, and the slot
    Bound apart;
  };
  std::vector<Made> made;
  std::set<std::string, std::less<>> read;  // names of the parameters and states that earlier steps read
  std::set<std::uint64_t> made_alone;  // golden ops of the last step without a counterpart, but for the optimizer's
  std::shared_ptr<const ParameterLayout> layout;  // as of the first step; null: that step has no finding
};

struct DumpComparison {
  std::shared_ptr<OpFamilies> families = std::make_shared<OpFamilies>();  // the sides' ops point into it
  std::deque<ComparedStep> steps;                                         // findings point into them
  std::vector<CompareFinding> findings;                                   // earliest error first
  std::vector<std::string> notes;                                         // ranks and steps that only one dump has
  std::string joined;                                                     // how the parts of ranks were joined
  std::vector<std::string> left_out;                                      // data that could not be compared
  std::vector<std::string> unreadable;                                    // files
  std::vector<RelatedTensor> relations;                                   // of two implementations; else empty
  std::optional<RelationMap> map;                                         // of two implementations, if it was asked for
  std::string correspondence;         // of two implementations: how many of their tensors correspond; else empty
  std::shared_ptr<const void> owner;  // of data that its pointers refer to
  std::uint64_t compared_tensors = 0, compared_bytes = 0;
  bool complete = false;  // everything was compared: without a finding, the two agree
};

struct CompareOptions {
  Tolerances tolerance;
  NameMap names;
  std::size_t threads = 0;  // 0: as many as CPUs
  bool all_sums = false;    // relative errors of every element, for msprobe's columns
  DumpPart part;
  std::shared_ptr<const RelationMap> map;  // how the two correspond; null: that is to be found
  bool keeps_map = false;                  // DumpComparison::map is wanted
  std::optional<DumpPart> golden_part;     // empty: `part`; else steps are compared in their order
  std::string part_words;  // " --step 0-2 --golden-step 3-5", for a command that asks for the same part; empty: all
  std::function<void(std::size_t step, std::size_t steps)> progress = {};  // called before each step; may be empty
};
// The meaning of the question; fails with `invalid_argument` if the mapping cannot be read, or the steps are not a list.
Result<CompareOptions> compare_options(const CompareQuestion& question);

// Both catalogs must outlive the comparison. Fails with `not_found` if they have no common step.
Result<DumpComparison> compare_dumps(const Catalog& target, const Catalog& golden, const CompareOptions& options);

// Whether everything was compared, when all else is known: notes the ends of runs that end early.
void conclude(const Catalog& target, const Catalog& golden, const CompareOptions& options, DumpComparison& comparison);

// One step (compare_step.cpp). `history`: of earlier steps of the rank; it is updated.
void compare_step(ComparedStep& step, std::size_t index, const CompareOptions& options, RankHistory& history,
                  std::vector<CompareFinding>& findings);

// "(0, 3, 1)" of the element's place in the shape.
std::string place_text(std::uint64_t index, std::span<const std::int64_t> shape);

}  // namespace sonde
