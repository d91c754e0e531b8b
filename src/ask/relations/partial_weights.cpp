#include "ask/relations/partial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ask/relations/verify.h"

namespace sonde {
namespace {

constexpr double kCopied = 1e-5;

struct Run {
  std::size_t at = 0, count = 0;
};

// Where the parts of `other` along its first axis are parts of `own`; count 0: nowhere.
Run place_of(const TensorPrint& own, const TensorPrint& other) {
  const std::vector<Extent>&all = own.parts[0], &wanted = other.parts[0];
  const std::uint64_t in_part = other.count / wanted.size();
  for (std::size_t at = 0; at + wanted.size() <= all.size(); ++at) {
    const bool fits = std::equal(wanted.begin(), wanted.end(), all.begin() + static_cast<std::ptrdiff_t>(at),
                                 [&](const Extent& a, const Extent& b) { return agree(a, b, in_part, kCopied); });
    if (fits) return {at, wanted.size()};
  }
  return {};
}

bool has_parts(const PoolTensor& tensor) {
  constexpr std::size_t kAxes = 2;
  return tensor.is_weight() && tensor.print.by_values && tensor.shape.size() == kAxes && !tensor.print.parts[0].empty();
}

// The rows that none of the runs has, if they lie together.
Run left_by(std::vector<Run> runs, std::size_t size) {
  std::ranges::sort(runs, {}, &Run::at);
  runs.push_back({size, 0});
  Run left;
  std::size_t end = 0;
  for (const Run& run : runs) {
    if (run.at > end && left.count > 0) return {};
    if (run.at > end) left = {end, run.at - end};
    end = std::max(end, run.at + run.count);
  }
  return left;
}

}  // namespace

std::optional<std::string> loaded_in_part(const PoolTensor& own, const PoolTensor& golden, std::string_view name) {
  if (!has_parts(own) || !has_parts(golden) || own.shape != golden.shape) return std::nullopt;
  const std::vector<Extent>&mine = own.print.parts[0], &theirs = golden.print.parts[0];
  const std::uint64_t in_part = own.print.count / mine.size();
  std::size_t equal = 0, other = mine.size();
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const bool is_equal = agree(mine[i], theirs[i], in_part, kCopied);
    equal += is_equal ? 1 : 0;
    if (!is_equal && other == mine.size()) other = i;
  }
  constexpr std::size_t kFewest = 4;  // of so many, one is
  if (other == mine.size() || kFewest * equal < mine.size()) return std::nullopt;
  return fmt::format("has {} of {} rows of golden {}; row {} is the first that was not carried over", equal,
                     mine.size(), name, other);
}

std::optional<std::string> partly_golden(const Pool& target, std::uint32_t weight, const Pool& golden,
                                         const std::vector<char>& met) {
  const PoolTensor& own = target.tensors[weight];
  if (!has_parts(own)) return std::nullopt;
  std::vector<Run> runs;
  std::string known;
  std::vector<std::uint32_t> missing;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& other = golden.tensors[i];
    const bool may_be_part = has_parts(other) && other.step == 0 && other.shape[1] == own.shape[1];
    if (!may_be_part || other.shape[0] >= own.shape[0]) continue;
    if (const Run run = place_of(own.print, other.print); run.count > 0) {
      runs.push_back(run);
      known += fmt::format("{}{} to {} of axis 0 are golden {}", known.empty() ? "" : ", ", run.at,
                           run.at + run.count - 1, golden.name_of(i));
    } else if (!met[i]) {
      missing.push_back(i);
    }
  }
  const Run left = left_by(runs, own.print.parts[0].size());
  std::erase_if(
      missing, [&](std::uint32_t one) { return static_cast<std::size_t>(golden.tensors[one].shape[0]) != left.count; });
  if (runs.empty() || missing.size() != 1) return std::nullopt;
  return fmt::format("{}, and {} to {} correspond to nothing: golden {} was not carried over", known, left.at,
                     left.at + left.count - 1, golden.name_of(missing.front()));
}

std::optional<std::string> golden_by_rows(const Pool& target, std::uint32_t weight, const Pool& golden,
                                          const std::vector<char>& met) {
  constexpr std::size_t kFewestRows = 4;
  constexpr double kSame = 1e-4;
  const auto rows_of = [](const PoolTensor& tensor) -> const std::vector<Extent>& {
    static const std::vector<Extent> kNone;
    return tensor.shape.size() < 2 || tensor.print.parts.empty() ? kNone : tensor.print.parts[0];
  };
  const std::vector<Extent>& mine = rows_of(target.tensors[weight]);
  if (mine.size() < kFewestRows) return std::nullopt;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& other = golden.tensors[i];
    const std::vector<Extent>& theirs = rows_of(other);
    if (!other.is_weight() || met[i] || other.shape != target.tensors[weight].shape || theirs.size() != mine.size())
      continue;
    // The sum of a row beside its norm stays, up to the sign.
    const auto is_scaled = [&](const Extent& a, const Extent& b) {
      return a.norm > 0 && b.norm > 0 && std::abs(std::abs(a.sum / a.norm) - std::abs(b.sum / b.norm)) <= kSame;
    };
    bool all = true;
    for (std::size_t row = 0; row < mine.size(); ++row) all = all && is_scaled(mine[row], theirs[row]);
    if (all) return fmt::format("is golden {}, each row times a number of its own", golden.name_of(i));
  }
  return std::nullopt;
}

bool golden_lacks_any_for(const Pool& target, std::uint32_t weight, const Pool& golden, const std::vector<char>& met) {
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& other = golden.tensors[i];
    const bool is_lost = other.is_weight() && other.step == 0 && !met[i];
    if (is_lost && 4 * other.print.count >= target.tensors[weight].print.count) return true;
  }
  return false;
}

}  // namespace sonde
