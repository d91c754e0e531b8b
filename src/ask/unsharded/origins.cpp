#include "ask/unsharded/origins.h"

#include <algorithm>
#include <vector>

#include "ask/unsharded/innocent_ops.h"
#include "ask/unsharded/op_evidence.h"
#include "plan/config/op_types.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr std::size_t kLongestWay = 64;  // ops without a counterpart, one after the other

// A parameter, or a view of one.
bool is_weight(const CompareSide& side, const CompareInput& input) {
  if (input.from == kNoOp) return input.tensor->parameter.is_parameter();
  const CompareOp& maker = side.ops[input.from];
  return maker.kind == OpKind::copy && maker.inputs.size() == 1 && is_weight(side, maker.inputs.front());
}

}  // namespace

bool OriginSearch::is_on_all_ranks(std::size_t rank, std::uint32_t op) const {
  const RankStep& of = step_.ranks()[rank];
  const CallSite& site = of.calls.address(op).site;
  return std::ranges::all_of(
      step_.ranks(), [&](const RankStep& other) { return other.stage != of.stage || other.calls.at(site) != nullptr; });
}

// It is what the golden op reads, or the same as another golden tensor.
bool OriginSearch::is_right(std::size_t rank, std::uint32_t op, const CompareInput& input,
                            const ShardCause& cause) const {
  const CompareSide& side = *step_.ranks()[rank].side;
  if (input.from != kNoOp) {
    if (step_.is_right(side.output(input.from, input.from_slot))) return true;
    if (begins_backward(side.ops[input.from].op->op_type)) return true;
  }
  const SiteKind kind = step_.address(cause.golden).site.place.kind;
  if (step_.joiner().join_read(rank, op, input, {step_.golden().rank, cause.golden_tensor}, kind).fits) return true;
  return !is_on_all_ranks(rank, op) && is_part_of_right(rank, input, cause);
}

// An op that this rank alone has reads a part: with those of the other ranks, which go on without the op, it is golden.
bool OriginSearch::is_part_of_right(std::size_t rank, const CompareInput& input, const ShardCause& cause) const {
  const WholeStep::Label& label = step_.label(cause.golden);
  if (!label.where || label.where->alone) return false;
  const std::vector<CompareInput>& inputs = step_.golden().ops[cause.golden].inputs;
  const auto read = std::ranges::find(inputs, cause.golden_tensor, &CompareInput::tensor);
  if (read == inputs.end()) return false;
  return step_.joiner().join_with_part(cause.golden, *read, *label.where, rank, *input.tensor).fits;
}

bool OriginSearch::is_passed(std::uint32_t op, const ShardCause& cause, const Origins& origins) const {
  return divides_like_micro_batches(step_, origins.rank, op) ||
         (origins.guilty_alone && is_innocent(step_, origins.rank, op, cause.joined.difference));
}

bool OriginSearch::drop_innocent(std::uint32_t maker, const ShardCause& cause, Origins& origins) const {
  if (origins.ops.empty() || origins.ops.back() != maker || !is_passed(maker, cause, origins)) return false;
  origins.ops.pop_back();
  return true;
}

void OriginSearch::add_origins(const CompareInput& input, const ShardCause& cause, Origins& origins) const {
  const CompareSide& side = *step_.ranks()[origins.rank].side;
  const std::uint32_t maker = input.from;
  if (maker == kNoOp || origins.seen.size() > kLongestWay || !origins.seen.insert(maker).second) return;
  const CatalogTensor* made = side.output(maker, input.from_slot);
  if (step_.is_right(made) || step_.is_wrong(made)) return;
  const std::vector<CompareInput>& inputs = side.ops[maker].inputs;
  // The program may change a state, and reads nothing else for it.
  const bool reads_weights_alone = std::ranges::all_of(inputs, [&](const CompareInput& read) {
    return !read.is_read || read.tensor->constant || is_weight(side, read);
  });
  bool any_right = false;
  for (const CompareInput& read : inputs) {
    if (!read.is_read || (is_weight(side, read) && !reads_weights_alone)) continue;
    if (is_right(origins.rank, maker, read, cause)) {
      any_right = true;
    } else {
      add_origins(read, cause, origins);
      if (drop_innocent(read.from, cause, origins)) any_right = true;
    }
  }
  if (any_right) origins.ops.push_back(maker);
}

Origins OriginSearch::of(std::size_t rank, const CompareInput& read, const ShardCause& cause, bool guilty_alone) const {
  Origins origins{.rank = rank, .guilty_alone = guilty_alone};
  add_origins(read, cause, origins);
  if (guilty_alone) drop_innocent(read.from, cause, origins);
  return origins;
}

// All golden calls like it are at lines where the rank has them, too: of one program, this is one more, whatever the number
// of micro-batches is.
bool OriginSearch::has_alike_elsewhere(std::size_t rank, const CallSite& site) const {
  const SiteCalls& calls = step_.ranks()[rank].calls;
  return site.module.empty() && std::ranges::all_of(step_.golden_step().calls().all(), [&](const auto& golden) {
           const CallSite& other = golden.first;
           const bool is_alike = other.place.kind == site.place.kind && other.module == site.module &&
                                 other.parameter == site.parameter && other.type == site.type;
           return !is_alike || calls.at(other) != nullptr;
         });
}

// By type, module and parameter. Two shardings have other ops there that move data: then the line counts, too.
bool OriginSearch::is_more_than_golden(std::size_t rank, std::uint32_t op) const {
  const auto calls_of_type = [](const SiteCalls& calls, const CallSite& like) {
    std::size_t count = 0;
    for (const auto& [site, there] : calls.all()) {
      const bool is_alike = site.place.kind == like.place.kind && site.module == like.module &&
                            site.parameter == like.parameter && site.type == like.type;
      if (is_alike) count += there.size();
    }
    return count;
  };
  const SiteCalls& calls = step_.ranks()[rank].calls;
  const CallSite& site = calls.address(op).site;
  const std::vector<SiteCall>* own = calls.at(site);
  const std::vector<SiteCall>* at_line = step_.golden_step().calls().at(site);
  const std::size_t expected = at_line == nullptr ? 0 : at_line->size() * step_.micro_batches();
  if (step_.golden_step().is_sharded() && own != nullptr && own->size() > expected) return true;
  if (at_line == nullptr && has_alike_elsewhere(rank, site)) return true;
  return calls_of_type(calls, site) > calls_of_type(step_.golden_step().calls(), site) * step_.micro_batches();
}

// Of these ops: how many the golden run does not have, and that compute.
std::ptrdiff_t OriginSearch::ops_that_compute(const Origins& origins, const ShardCause& cause) const {
  return std::ranges::count_if(origins.seen, [&](std::uint32_t index) {
    const CompareOp& op = step_.ranks()[origins.rank].side->ops[index];
    return !only_moves(op) && is_more_than_golden(origins.rank, index) && !is_passed(index, cause, origins);
  });
}

}  // namespace sonde
