#include "ask/relations/joins_of_steps.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "ask/relations/verify.h"

namespace sonde {
namespace {

// The numbers of tensors together.
class Together {
 public:
  // False: its numbers are not known, and so are not those of all.
  bool add(const TensorPrint& print) {
    if (print.count == 0 || print.non_finite > 0) return false;
    all_.count += print.count;
    all_.whole.sum += print.whole.sum;
    squares_ += print.whole.norm * print.whole.norm;
    all_.whole.norm = std::sqrt(squares_);
    all_.min = std::min(all_.min, print.min);
    all_.max = std::max(all_.max, print.max);
    all_.whole_numbers = print.whole_numbers;
    return true;
  }
  const TensorPrint& numbers() const { return all_; }

 private:
  TensorPrint all_{.whole = {}, .min = INFINITY, .max = -INFINITY, .parts = {}, .rows = {}};
  double squares_ = 0;
};

// As if they were one tensor.
TensorDifference difference_together(const PoolTensor& part, const TensorPrint& all, const PoolTensor& golden) {
  return difference_by_statistics(PoolTensor{.of = part.of, .print = all}, golden);
}

// Of the golden tensors of that size: the one that has these numbers, the nearest of several.
const std::uint32_t* like_in(const Pool& golden, const std::vector<std::uint32_t>& same_size, const PoolTensor& part,
                             const TensorPrint& all) {
  constexpr double kSumPrecision = 1e-4;
  const std::uint32_t* best = nullptr;
  double least = INFINITY;
  for (const std::uint32_t& other : same_size) {
    if (!agree(all, golden.tensors[other].print, kSumPrecision)) continue;
    const double apart = difference_together(part, all, golden.tensors[other]).relative();
    if (apart >= least) continue;
    least = apart;
    best = &other;
  }
  return best;
}

using BySize = std::map<std::uint64_t, std::vector<std::uint32_t>>;

BySize results_by_size(const Pool& golden) {
  BySize results;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& own = golden.tensors[i];
    if (own.op != kNoOp && !own.print.proves_nothing()) results[own.print.count].push_back(i);
  }
  return results;
}

Relation part_of(std::uint32_t whole, const PoolTensor& part, const TensorPrint& all, const Pool& golden) {
  Relation relation;
  relation.kind = RelationKind::cut;
  relation.is_of_sums = true;
  relation.parts = {{.golden = whole}};
  relation.difference = difference_together(part, all, golden.tensors[whole]);
  return relation;
}

bool is_known(const Relation& relation) { return relation && !relation.weak; }

}  // namespace

std::vector<std::uint64_t> relate_over_steps(const Pool& target, const Pool& golden, std::vector<Relation>& relations,
                                             std::vector<char>& met) {
  std::vector<std::uint64_t> counts(target.tensors.size());
  for (std::size_t i = 0; i < counts.size(); ++i) counts[i] = target.tensors[i].print.count;
  if (target.steps.size() <= golden.steps.size() || target.has_values()) return counts;
  const BySize golden_by_size = results_by_size(golden);
  std::map<std::tuple<std::string_view, std::uint32_t, std::size_t>, std::vector<std::uint32_t>> likes;
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const PoolTensor& own = target.tensors[i];
    if (own.op == kNoOp) continue;
    likes[{target.catalog_op(own.op).op_name, own.of.tensor->slot, own.of.tensor->shape.size()}].push_back(i);
  }
  for (const auto& [key, tensors] : likes) {
    // Modules that the program calls one by one have a step each.
    if (tensors.size() < 2) continue;
    Together together;
    const auto is_added = [&](std::uint32_t tensor) { return together.add(target.tensors[tensor].print); };
    const TensorPrint& all = together.numbers();
    if (!std::ranges::all_of(tensors, is_added) || all.proves_nothing()) continue;
    if (std::ranges::any_of(tensors, [&](std::uint32_t tensor) { return is_known(relations[tensor]); })) continue;
    for (const std::uint32_t tensor : tensors) counts[tensor] = all.count;
    const auto same_size = golden_by_size.find(all.count);
    const std::uint32_t* whole = same_size == golden_by_size.end()
                                     ? nullptr
                                     : like_in(golden, same_size->second, target.tensors[tensors.front()], all);
    if (whole == nullptr) continue;
    met[*whole] = 1;
    for (const std::uint32_t tensor : tensors) {
      relations[tensor] = part_of(*whole, target.tensors[tensor], all, golden);
    }
  }
  return counts;
}

void relate_over_loops(const Pool& target, const Pool& golden, std::vector<Relation>& relations,
                       std::vector<char>& met) {
  if (target.has_values()) return;
  const BySize golden_by_size = results_by_size(golden);
  std::map<std::tuple<std::uint32_t, std::string_view, std::int64_t, std::string_view, std::uint32_t>,
           std::vector<std::uint32_t>>
      calls;
  for (std::uint32_t i = 0; i < target.tensors.size(); ++i) {
    const PoolTensor& own = target.tensors[i];
    if (own.op == kNoOp || is_known(relations[i])) continue;
    // Parts that were chosen always add up to what they were chosen from.
    if (moves_or_casts(target.op(own.op).kind)) continue;
    const CatalogOp& op = target.catalog_op(own.op);
    if (op.line > 0) calls[{own.step, op.source_file, op.line, op.op_type, own.of.tensor->slot}].push_back(i);
  }
  constexpr std::size_t kMostCalls = 256;
  for (const auto& [place, tensors] : calls) {
    for (std::size_t first = 0; first + 1 < tensors.size();) {
      std::size_t length = 0;
      std::vector<std::uint32_t> parts{tensors[first]};
      Together together;
      if (!together.add(target.tensors[tensors[first]].print)) {
        ++first;
        continue;
      }
      for (std::size_t i = first + 1; i < tensors.size() && parts.size() < kMostCalls && length == 0; ++i) {
        parts.push_back(tensors[i]);
        if (!together.add(target.tensors[tensors[i]].print)) break;
        const TensorPrint& all = together.numbers();
        const auto same_size = golden_by_size.find(all.count);
        if (same_size == golden_by_size.end() || all.proves_nothing()) continue;
        const std::uint32_t* whole = like_in(golden, same_size->second, target.tensors[parts.front()], all);
        if (whole == nullptr) continue;
        met[*whole] = 1;
        for (const std::uint32_t part : parts) relations[part] = part_of(*whole, target.tensors[part], all, golden);
        length = parts.size();
      }
      first += std::max<std::size_t>(1, length);
    }
  }
}

}  // namespace sonde
