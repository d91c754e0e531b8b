#include "record/capture/unwritten.h"

#include <algorithm>
#include <utility>

#include "ground/tensor/walk.h"

namespace sonde {
namespace {

// A view has more runs of adjacent elements than this: it is not looked at run by run.
constexpr std::int64_t kMostRunsOfView = 4096;

// Calls `look(begin, end)` for each run of adjacent elements until it says false. False: it has, or there are too many.
template <class Look>
bool for_each_run(const TensorView& view, Look look) {
  if (view.elements() == 0) return true;
  Walk walk(view, WalkOrder::memory);
  const auto run = static_cast<std::ptrdiff_t>(walk.inner_run() * static_cast<std::int64_t>(walk.item_bytes));
  std::size_t outer = walk.inner_run() > 1 ? walk.rank - 1 : walk.rank;
  std::int64_t count = 1;
  for (std::size_t d = 0; d < outer; ++d) {
    if (walk.stride[d] == 0) walk.size[d] = 1;  // the same elements again
    if (walk.size[d] > kMostRunsOfView) return false;
    count *= walk.size[d];
    if (count > kMostRunsOfView) return false;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    const std::byte* begin = walk.data;
    std::int64_t rest = i;
    for (std::size_t d = outer; d-- > 0; rest /= walk.size[d]) {
      begin += rest % walk.size[d] * walk.stride[d] * static_cast<std::int64_t>(walk.item_bytes);
    }
    if (!look(begin, begin + run)) return false;
  }
  return true;
}

}  // namespace

void Unwritten::begin(const std::byte* block, std::uint64_t bytes, std::uint64_t kept) {
  any_ = kept < bytes || bytes == 0;
  block_ = block;
  bytes_ = bytes;
  written_.clear();
  if (kept > 0) written_.push_back({block, block + kept});
}

void Unwritten::end() {
  any_ = false;
  written_.clear();
}

void Unwritten::wrote(const TensorView& view) {
  const bool is_whole = for_each_run(view, [&](const std::byte* begin, const std::byte* end) {
    add({begin, end});
    return written_.size() <= kMostRuns;
  });
  const bool is_all = written_.size() == 1 && written_[0].begin <= block_ && written_[0].end >= block_ + bytes_;
  if (!is_whole || is_all) end();
}

bool Unwritten::holds(const TensorView& view) const {
  bool found = false;
  for_each_run(view, [&](const std::byte* begin, const std::byte* end) {
    found = !has({begin, end});
    return !found;
  });
  return found;
}

void Unwritten::add(Run run) {
  // The first one that it may touch.
  const auto first = std::ranges::lower_bound(written_, run.begin, {}, &Run::end);
  auto last = first;
  for (; last != written_.end() && last->begin <= run.end; ++last) {
    run.begin = std::min(run.begin, last->begin);
    run.end = std::max(run.end, last->end);
  }
  if (first == last) {
    written_.insert(first, run);
  } else {
    *first = run;
    written_.erase(std::next(first), last);
  }
}

bool Unwritten::has(Run run) const {
  const auto at = std::ranges::lower_bound(written_, run.end, {}, &Run::end);
  return at != written_.end() && at->begin <= run.begin;
}

}  // namespace sonde
