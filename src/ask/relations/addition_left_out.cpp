#include "ask/relations/addition_left_out.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "ask/compare/compare_words.h"
#include "ask/relations/dense_math.h"
#include "read/measure/values.h"

namespace sonde {
namespace {

// Elements of tensors that are added to see whether one lacks the other.
constexpr std::uint64_t kMostAdded = 1 << 20;

std::vector<double> values_of(const Pool& pool, std::uint32_t tensor) {
  const PoolValues values = pool.values_of(tensor);
  return values ? all_values(values.view()) : std::vector<double>{};
}

// The sums show that `added` may be what `whole` has and `part` lacks.
bool may_be_added(const TensorPrint& part, const TensorPrint& whole, const TensorPrint& added) {
  constexpr double kTolerance = 1e-4;
  const double scale = part.whole.norm + whole.whole.norm + added.whole.norm;
  return added.count == whole.count && !added.proves_nothing() &&
         std::abs(part.whole.sum + added.whole.sum - whole.whole.sum) <=
             kTolerance * scale * std::sqrt(static_cast<double>(whole.count));
}

bool is_sum_of(const std::vector<double>& whole, const std::vector<double>& a, const std::vector<double>& b) {
  constexpr double kTolerance = 1e-4;
  if (whole.empty() || a.size() != whole.size() || b.size() != whole.size()) return false;
  double error = 0, norm = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (is_hidden(a[i]) || is_hidden(whole[i])) continue;
    error += std::pow(a[i] + b[i] - whole[i], 2);
    norm += whole[i] * whole[i];
  }
  return norm > 0 && error <= kTolerance * kTolerance * norm;
}

// All elements are those of `whole`, but for those that a mask hides there.
bool is_all_but_hidden(const std::vector<double>& part, const std::vector<double>& whole) {
  constexpr double kTolerance = 1e-5;
  if (part.size() != whole.size()) return false;
  double error = 0, norm = 0;
  std::size_t hidden = 0;
  for (std::size_t i = 0; i < whole.size(); ++i) {
    if (is_hidden(part[i])) return false;
    if (is_hidden(whole[i])) {
      ++hidden;
      continue;
    }
    error += std::pow(part[i] - whole[i], 2);
    norm += whole[i] * whole[i];
  }
  return hidden > 0 && norm > 0 && error <= kTolerance * kTolerance * norm;
}

}  // namespace

std::optional<Culprit> mask_left_out(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                     std::uint32_t result, std::uint32_t golden_result) {
  const PoolTensor &own = target.tensors[result], &whole = golden.tensors[golden_result];
  if (own.shape != whole.shape || own.print.proves_nothing() || own.print.count > kMostAdded) return std::nullopt;
  const auto goes_on = [&](std::uint32_t reader) { return judgement.target.has[reader] != 0; };
  const auto next = std::ranges::find_if(own.readers, goes_on);
  if (next == own.readers.end() || !is_all_but_hidden(values_of(target, result), values_of(golden, golden_result)))
    return std::nullopt;
  const CatalogOp &op = target.catalog_op(own.op), &other = golden.catalog_op(whole.op);
  return Culprit{.op = *next,
                 .golden = golden_result,
                 .uncertain = true,
                 .what = fmt::format("reads the result of {} {}, {}, without the mask that golden {} {} has",
                                     op.op_type, op.op_name, place_text(op), other.op_type, place_text(other))};
}

std::optional<Culprit> addition_left_out(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                         std::uint32_t result, std::uint32_t golden_result) {
  const PoolTensor &own = target.tensors[result], &whole = golden.tensors[golden_result];
  if (own.print.count != whole.print.count || own.print.proves_nothing() || own.print.count > kMostAdded)
    return std::nullopt;
  const auto goes_on = [&](std::uint32_t reader) { return judgement.target.has[reader] != 0; };
  const auto next = std::ranges::find_if(own.readers, goes_on);
  if (next == own.readers.end()) return std::nullopt;
  std::vector<double> mine, theirs;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& added = golden.tensors[i];
    if (!judgement.met[i] || added.computed != nullptr || !may_be_added(own.print, whole.print, added.print)) continue;
    if (mine.empty()) {
      mine = values_of(target, result);
      theirs = values_of(golden, golden_result);
    }
    if (!is_sum_of(theirs, mine, values_of(golden, i))) continue;
    const CatalogOp& op = target.catalog_op(own.op);
    return Culprit{
        .op = *next,
        .golden = golden_result,
        .uncertain = true,
        .what = fmt::format("reads the result of {} {}, {}, without golden {}, which the golden run has added",
                            op.op_type, op.op_name, place_text(op), golden.name_of(i))};
  }
  return std::nullopt;
}

}  // namespace sonde
