#include "ask/relations/search.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>

#include "ask/compare/tolerance.h"
#include "ask/relations/dense_math.h"
#include "ask/relations/verify.h"
#include "ask/relations/views.h"
#include "read/measure/values.h"
#include "read/operators/op_family.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

// A part of a golden tensor, or a whole one: what a part of a target's tensor may be equal to.
struct Entry {
  std::uint64_t count = 0;  // elements
  double norm = 0, sum = 0;
  std::uint32_t tensor = 0;
  std::int32_t axis = -1;  // -1: the whole
  std::uint32_t index = 0;
};

const std::vector<Extent>& parts_along(const TensorPrint& print, std::int32_t axis) {
  return axis == kAxisOfRows ? print.rows : print.parts[static_cast<std::size_t>(axis)];
}

// Of tensors that are near, as a weight before and after an update, the nearest is meant.
bool is_far_nearer(const TensorDifference& a, const TensorDifference& b) {
  constexpr double kRoundings = 50, kFar = 30;  // spacings of the type; times
  return b.relative() > kRoundings * coarser_spacing(b) && kFar * a.relative() < b.relative();
}

// Some of its indices go backward one after the other, in one part or in several.
bool is_reversed(const std::vector<RelationPart>& parts) {
  constexpr std::int64_t kFewest = 3;
  std::int64_t length = 1;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const RelationPart& part = parts[i];
    const bool goes_on = i > 0 && part.golden == parts[i - 1].golden && part.axis == parts[i - 1].axis &&
                         part.start == parts[i - 1].start - 1 && part.count == 1 && parts[i - 1].count == 1;
    length = goes_on ? length + 1 : 1;
    if (length >= kFewest || (part.step < 0 && part.count >= kFewest)) return true;
  }
  return false;
}

}  // namespace

struct Search::State {
  const Pool& target;
  const Pool& golden;
  const Threads& threads;
  std::vector<Entry> entries;  // by count, then by norm
  std::vector<char> met;
  std::map<std::pair<std::uint32_t, std::int32_t>, std::vector<char>> covered;  // by golden tensor and axis: indices
  std::vector<char> reversed;  // by tensor of the target: it has golden parts in the reversed order

  void index();
  std::span<const Entry> like(std::uint64_t count, double norm, double tolerance) const;
  Relation find_whole(std::uint32_t tensor);
  Relation find_parts(std::uint32_t tensor);
  Relation find_along(std::uint32_t tensor, std::size_t axis);
  Relation find_merged(std::uint32_t tensor);
  Relation find_runs(std::uint32_t tensor, const std::vector<Extent>& wanted, std::size_t axis, Relation found);
  Relation find_constant(std::uint32_t tensor);
  Relation find_sum(std::uint32_t tensor);
  // A tensor of the target, and the numbers of its part at each index of an axis.
  struct Wanted {
    std::uint32_t tensor;
    const std::vector<Extent>& parts;
    bool are_rows;  // the parts lie one after the other
    std::uint64_t elements;
    std::uint64_t count() const { return elements / std::max<std::size_t>(parts.size(), 1); }  // of a part
  };
  std::int64_t run_length(const Wanted& wanted, std::size_t from, const Entry& first, std::int64_t step,
                          double tolerance) const;
  std::optional<RelationPart> longest_run(const Wanted& wanted, std::size_t from) const;
  bool are_equal_rows(const Wanted& wanted, std::size_t row, const Entry& entry, std::int64_t index, double tolerance,
                      double noise) const;
  double preference(std::uint32_t tensor, std::uint32_t other) const;
  bool may_be_reversed(std::uint32_t tensor) const;
  void cover(const RelationPart& part);
  void note(const Relation& relation) {
    for (const RelationPart& part : relation.parts) {
      if (part.axis < 0) {
        met[part.golden] = 1;
      } else {
        cover(part);
      }
    }
  }
};

void Search::State::index() {
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const TensorPrint& print = golden.tensors[i].print;
    if (print.count == 0) continue;
    entries.push_back({print.count, print.whole.norm, print.whole.sum, i, -1, 0});
    for (std::size_t axis = 0; axis < print.parts.size(); ++axis) {
      const auto& parts = print.parts[axis];
      if (parts.empty() || print.is_constant()) continue;
      for (std::uint32_t at = 0; at < parts.size(); ++at) {
        if (parts[at].norm == 0) continue;
        entries.push_back(
            {print.count / parts.size(), parts[at].norm, parts[at].sum, i, static_cast<std::int32_t>(axis), at});
      }
    }
    if (print.is_constant()) continue;
    for (std::uint32_t at = 0; at < print.rows.size(); ++at) {
      if (print.rows[at].norm == 0) continue;
      entries.push_back({print.count / print.rows.size(), print.rows[at].norm, print.rows[at].sum, i, kAxisOfRows, at});
    }
  }
  std::ranges::sort(entries, [](const Entry& a, const Entry& b) {
    return std::tie(a.count, a.norm, a.tensor, a.axis, a.index) < std::tie(b.count, b.norm, b.tensor, b.axis, b.index);
  });
}

void Search::State::cover(const RelationPart& part) {
  std::vector<char>& indices = covered[{part.golden, part.axis}];
  indices.resize(static_cast<std::size_t>(size_along(golden.tensors[part.golden].shape, part.axis)));
  for (std::int64_t i = 0; i < part.count; ++i) indices[static_cast<std::size_t>(part.start + i * part.step)] = 1;
  if (std::ranges::all_of(indices, [](char is_covered) { return is_covered != 0; })) met[part.golden] = 1;
}

std::span<const Entry> Search::State::like(std::uint64_t count, double norm, double tolerance) const {
  const auto before = [](const Entry& entry, const std::pair<std::uint64_t, double>& key) {
    return std::pair(entry.count, entry.norm) < key;
  };
  const auto first = std::lower_bound(entries.begin(), entries.end(), std::pair(count, norm * (1 - tolerance)), before);
  auto last = first;
  while (last != entries.end() && last->count == count && last->norm <= norm * (1 + tolerance)) ++last;
  return {first, last};
}

// An operator that only computes does not turn its rows around.
bool Search::State::may_be_reversed(std::uint32_t tensor) const {
  const std::uint32_t op = target.tensors[tensor].op;
  return op == kNoOp || !target.tensors[tensor].has_fractions() || moves_or_casts(target.op(op).kind) ||
         std::ranges::any_of(target.ops[op].inputs, [&](std::uint32_t input) { return reversed[input] != 0; });
}

// Of several golden tensors with the same values: a weight for a weight, an operator of the same kind, the same shape.
double Search::State::preference(std::uint32_t tensor, std::uint32_t other) const {
  const PoolTensor &mine = target.tensors[tensor], &theirs = golden.tensors[other];
  double points = 0;
  if ((mine.op == kNoOp) == (theirs.op == kNoOp)) points += 8;
  if (mine.is_weight() == theirs.is_weight()) points += 4;
  if (mine.op != kNoOp && theirs.op != kNoOp) {
    const CompareOp &a = target.op(mine.op), &b = golden.op(theirs.op);
    if (OpFamilies::same(*a.family, *b.family)) points += 2;
    if (a.op->phase == b.op->phase) points += 4;
  }
  if (mine.shape == theirs.shape) points += 1;
  return points;
}

Relation Search::State::find_whole(std::uint32_t tensor) {
  const PoolTensor& mine = target.tensors[tensor];
  std::vector<std::pair<double, std::uint32_t>> candidates;
  constexpr double kWidest = 0.05;
  for (const Entry& entry : like(mine.print.count, mine.print.whole.norm, kWidest)) {
    if (entry.axis != -1) continue;
    const PoolTensor& other = golden.tensors[entry.tensor];
    if (agree(mine.print, other.print, tolerance_for(mine, other))) {
      candidates.emplace_back(-preference(tensor, entry.tensor), entry.tensor);
    }
  }
  std::ranges::sort(candidates);
  Relation best;
  constexpr std::size_t kMostTried = 64;
  for (std::size_t i = 0; i < std::min(candidates.size(), kMostTried); ++i) {
    Relation found;
    const std::uint32_t other = candidates[i].second;
    const double tolerance = tolerance_for(mine, golden.tensors[other]);
    if (!verify_whole(target, tensor, golden, other, tolerance, threads.runner(), found)) continue;
    note(found);
    if (!best || is_far_nearer(found.difference, best.difference)) best = std::move(found);
  }
  return best;
}

// Rows after a norm all have the same sum and norm: their elements decide.
bool Search::State::are_equal_rows(const Wanted& wanted, std::size_t row, const Entry& entry, std::int64_t index,
                                   double tolerance, double noise) const {
  const bool lie_together = entry.axis == kAxisOfRows || entry.axis == 0;
  if (!wanted.are_rows || !lie_together) return true;
  const PoolValues x = target.values_of(wanted.tensor), y = golden.values_of(entry.tensor);
  if (!x || !y) return false;
  if (!x.view().is_c_contiguous() || !y.view().is_c_contiguous()) return entry.axis == 0;  // verified as a whole
  const auto count = static_cast<std::int64_t>(wanted.count());
  double errors = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    const double apart = element_value(x.view(), static_cast<std::int64_t>(row) * count + i) -
                         element_value(y.view(), index * count + i);
    errors += apart * apart;
  }
  return std::sqrt(errors) <= std::max(tolerance * wanted.parts[row].norm, noise);
}

std::int64_t Search::State::run_length(const Wanted& wanted, std::size_t from, const Entry& first, std::int64_t step,
                                       double tolerance) const {
  const TensorPrint& print = golden.tensors[first.tensor].print;
  if (first.axis == -1) return 1;
  const std::vector<Extent>& parts = parts_along(print, first.axis);
  // Beside the others a part may be the rest of sums that cancel, which is rounding alone.
  constexpr double kNoise = 1e-5;
  const double noise = kNoise * target.tensors[wanted.tensor].print.whole.norm /
                       std::sqrt(static_cast<double>(std::max<std::size_t>(wanted.parts.size(), 1)));
  std::int64_t length = 1;
  for (std::size_t at = from + 1; at < wanted.parts.size(); ++at, ++length) {
    const std::int64_t index = static_cast<std::int64_t>(first.index) + step * length;
    if (index < 0 || index >= static_cast<std::int64_t>(parts.size())) break;
    if (!agree(wanted.parts[at], parts[static_cast<std::size_t>(index)], wanted.count(), tolerance, noise)) break;
    if (!are_equal_rows(wanted, at, first, index, tolerance, noise)) break;
  }
  return length;
}

std::optional<RelationPart> Search::State::longest_run(const Wanted& wanted, std::size_t from) const {
  const PoolTensor& mine = target.tensors[wanted.tensor];
  const Extent& first = wanted.parts[from];
  constexpr std::size_t kMostTried = 256;
  constexpr double kWidest = 0.05;
  std::optional<RelationPart> best;
  double best_points = -1;
  std::size_t tried = 0;
  for (const Entry& entry : like(wanted.count(), first.norm, kWidest)) {
    const PoolTensor& other = golden.tensors[entry.tensor];
    const double tolerance = tolerance_for(mine, other);
    // Weights of plain tensors are data.
    const bool are_from_outside = mine.op == kNoOp && other.op == kNoOp;
    const bool are_alike = mine.is_weight() == other.is_weight() || (mine.holds_weights && other.holds_weights);
    if (!other.print.by_values || (!are_alike && !are_from_outside)) continue;
    if (!agree(first, {entry.sum, entry.norm}, wanted.count(), tolerance)) continue;
    if (++tried > kMostTried) break;
    if (!are_equal_rows(wanted, from, entry, entry.index, tolerance, 0)) continue;
    // Cosines of small angles are all near 1: the nearest is meant, whatever made it.
    const double nearness = agree(first, {entry.sum, entry.norm}, wanted.count(), tolerance / 100) ? 20 : 0;
    for (const std::int64_t step : {1, 0, 2, -1}) {
      const std::int64_t length = run_length(wanted, from, entry, step, tolerance);
      // Two parts are reversed, or lie two apart, by chance.
      constexpr std::int64_t kFewestApart = 3;
      if ((step == 2 || step == -1) && length < kFewestApart) continue;
      const double points = 100.0 * static_cast<double>(length) + nearness + preference(wanted.tensor, entry.tensor);
      if (points <= best_points) continue;
      best_points = points;
      best = RelationPart{.golden = entry.tensor,
                          .axis = entry.axis,
                          .at = static_cast<std::int64_t>(from),
                          .start = entry.index,
                          .step = length == 1 ? 1 : step,
                          .count = length};
    }
  }
  return best;
}

// Joins and cuts along one axis of the target.
Relation Search::State::find_along(std::uint32_t tensor, std::size_t axis) {
  return find_runs(tensor, target.tensors[tensor].print.parts[axis], axis, {});
}

Relation Search::State::find_runs(std::uint32_t tensor, const std::vector<Extent>& wanted, std::size_t axis,
                                  Relation found) {
  const PoolTensor& mine = target.tensors[tensor];
  if (wanted.size() < 2) return {};
  const std::uint64_t count = mine.print.count / wanted.size();
  found.axis = static_cast<std::int32_t>(axis);
  double tolerance = 0;
  const Wanted all{tensor, wanted, axis == 0, mine.print.count};
  for (std::size_t at = 0; at < wanted.size();) {
    const std::optional<RelationPart> part = longest_run(all, at);
    // Single numbers are equal by chance: only long runs of them count.
    const bool is_long = part && (count > 1 || part->count >= 4);
    if (!is_long) return {};
    at += static_cast<std::size_t>(part->count);
    tolerance = std::max(tolerance, tolerance_for(mine, golden.tensors[part->golden]));
    found.parts.push_back(*part);
  }
  if (!verify_parts(target, tensor, golden, tolerance, found)) return {};
  if (is_reversed(found.parts) && !may_be_reversed(tensor)) return {};
  found.kind = found.parts.size() == 1 ? RelationKind::cut : RelationKind::joined;
  // A part that an operator takes out of a weight may be the wrong one.
  if (found.kind == RelationKind::cut && mine.op != kNoOp && !mine.is_weight() &&
      golden.tensors[found.golden()].is_weight())
    return {};
  return found;
}

// With its first axes as one, and its last ones: the heads of a weight or a bias.
Relation Search::State::find_merged(std::uint32_t tensor) {
  const PoolTensor& mine = target.tensors[tensor];
  constexpr std::uint64_t kMost = 1 << 20;
  const PoolValues x = target.values_of(tensor);
  if (mine.shape.size() < 2 || mine.print.count > kMost || mine.print.proves_nothing() || !x) return {};
  if (!x.view().is_c_contiguous()) return {};
  const PartView whole(x.view());
  std::int64_t rows = 1;
  for (const std::int64_t size : mine.shape) {
    rows *= size;
    const std::int64_t columns = static_cast<std::int64_t>(mine.print.count) / rows;
    std::vector<Extent> by_row(static_cast<std::size_t>(rows)), by_column(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const double value = whole.at(i);
      for (Extent* part :
           {&by_row[static_cast<std::size_t>(i / columns)], &by_column[static_cast<std::size_t>(i % columns)]}) {
        part->sum += value;
        part->norm += value * value;
      }
    }
    for (std::vector<Extent>* parts : {&by_row, &by_column}) {
      for (Extent& part : *parts) part.norm = std::sqrt(part.norm);
    }
    Relation found;
    found.merged = {rows, columns};
    if (Relation along = find_runs(tensor, by_row, 0, found)) return along;
    if (Relation along = find_runs(tensor, by_column, columns == 1 ? 0 : 1, found)) return along;
  }
  return {};
}

// A whole tensor that is one index of a golden axis: a token, a row of a batch.
Relation Search::State::find_parts(std::uint32_t tensor) {
  const PoolTensor& mine = target.tensors[tensor];
  Relation found;
  if (!mine.print.by_values) return found;
  if (!mine.print.proves_nothing()) {
    const std::vector<Extent> whole{mine.print.whole};
    const std::optional<RelationPart> part = longest_run({tensor, whole, true, mine.print.count}, 0);
    if (part && part->axis >= 0) {
      found.parts = {*part};
      found.kind = RelationKind::cut;
      if (verify_parts(target, tensor, golden, tolerance_for(mine, golden.tensors[part->golden]), found)) return found;
    }
  }
  for (std::size_t axis = 0; axis < mine.shape.size(); ++axis) {
    if (Relation along = find_along(tensor, axis)) return along;
  }
  return find_merged(tensor);
}

Relation Search::State::find_constant(std::uint32_t tensor) {
  const TensorPrint& print = target.tensors[tensor].print;
  Relation found;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const TensorPrint& other = golden.tensors[i].print;
    if (!other.is_constant() || other.non_finite != 0 || std::abs(other.min - print.min) > 1e-5 * std::abs(print.min))
      continue;
    met[i] = 1;
    // Zeros of one weight are not those of another: it may have been left as it began.
    const bool may_be_it = !target.tensors[tensor].is_weight() || golden.tensors[i].print.count == print.count;
    if (found || !may_be_it) continue;
    found.kind = RelationKind::constant;
    found.parts = {{.golden = i}};
    found.difference = difference_by_statistics(target.tensors[tensor], golden.tensors[i]);
    found.difference.rms_error = found.difference.max_error = 0;
    found.difference.equal = true;
  }
  return found;
}

// One bias for two.
Relation Search::State::find_sum(std::uint32_t tensor) {
  const PoolTensor& mine = target.tensors[tensor];
  if (!mine.is_weight() || !mine.print.by_values) return {};
  std::vector<std::uint32_t> like;
  for (std::uint32_t i = 0; i < golden.tensors.size(); ++i) {
    const PoolTensor& other = golden.tensors[i];
    if (other.is_weight() && other.print.by_values && other.shape == mine.shape) like.push_back(i);
  }
  constexpr std::size_t kMost = 64;
  if (like.size() > kMost) return {};
  for (std::size_t a = 0; a < like.size(); ++a) {
    for (std::size_t b = a + 1; b < like.size(); ++b) {
      const double sum = golden.tensors[like[a]].print.whole.sum + golden.tensors[like[b]].print.whole.sum;
      if (std::abs(sum - mine.print.whole.sum) > 1e-4 * mine.print.whole.norm) continue;
      Relation found;
      found.kind = RelationKind::sum;
      found.parts = {{.golden = like[a]}, {.golden = like[b]}};
      if (!verify_sum(target, tensor, golden, found)) continue;
      return found;
    }
  }
  return {};
}

Search::Search(const Pool& target, const Pool& golden, const Threads& threads)
    : state_(new State{target,
                       golden,
                       threads,
                       {},
                       std::vector<char>(golden.tensors.size(), 0),
                       {},
                       std::vector<char>(target.tensors.size(), 0)}) {}
Search::~Search() = default;

const std::vector<char>& Search::met() const { return state_->met; }

void Search::note(const Relation& relation) { state_->note(relation); }

Relation Search::find(std::uint32_t tensor) {
  const PoolTensor& mine = state_->target.tensors[tensor];
  if (mine.print.count == 0) return {};
  if (state_->entries.empty()) state_->index();
  if (mine.print.is_constant() && (mine.print.count > 1 || mine.print.whole_numbers))
    return state_->find_constant(tensor);
  Relation found = state_->find_whole(tensor);
  if (!found && mine.print.count > 1) found = state_->find_parts(tensor);
  if (!found) found = state_->find_sum(tensor);
  if (found) state_->note(found);
  state_->reversed[tensor] = static_cast<char>(is_reversed(found.parts));
  found.weak = mine.print.proves_nothing();
  return found;
}

bool same_but_for_mask(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other) {
  const PoolTensor &mine = target.tensors[tensor], &theirs = golden.tensors[other];
  constexpr double kHidden = -1e3;  // scores are beside -1e4, too
  const auto hides = [](const TensorPrint& print) { return print.non_finite > 0 || print.min < kHidden; };
  if (mine.shape != theirs.shape || !hides(mine.print) || !hides(theirs.print)) return false;
  const PoolValues x = target.values_of(tensor), y = golden.values_of(other);
  if (!x || !y) return false;
  const PartView left(x.view()), right(y.view());
  double errors = 0, squares = 0;
  for (std::int64_t at = 0; at < static_cast<std::int64_t>(mine.print.count); ++at) {
    const double a = left.at(at), b = right.at(at);
    if ((a < kHidden) != (b < kHidden)) return false;
    if (a < kHidden) continue;
    errors += (a - b) * (a - b);
    squares += b * b;
  }
  return errors <= squares * 1e-8;
}

bool have_same_values(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other) {
  const PoolTensor &mine = target.tensors[tensor], &theirs = golden.tensors[other];
  if (!agree(mine.print, theirs.print, tolerance_for(mine, theirs))) return false;
  const PoolValues x = target.values_of(tensor), y = golden.values_of(other);
  if (!x || !y) return true;
  PartView left(x.view()), right(y.view());
  const auto count = static_cast<std::int64_t>(mine.print.count);
  if (left.shape() == right.shape()) {
    return agree_in_samples(left, right, count, theirs.print.whole.norm, tolerance_for(mine, theirs));
  }
  Relation turned;
  return turn_to_agree(left, right, count, theirs.print.whole.norm, tolerance_for(mine, theirs), turned);
}

namespace {

constexpr std::int64_t kMostSamples = 2048;

// The correlation of samples. All masks are alike: what they hide shows nothing.
double likeness_of(const PartView& left, const PartView& right, std::int64_t count) {
  const std::int64_t stride = std::max<std::int64_t>(1, count / kMostSamples);
  double n = 0, sx = 0, sy = 0, sxx = 0, syy = 0, sxy = 0;
  for (std::int64_t at = 0; at < count; at += stride) {
    const double a = left.at(at), b = right.at(at);
    if (!std::isfinite(a) || !std::isfinite(b) || is_hidden(a) || is_hidden(b)) continue;
    n += 1;
    sx += a;
    sy += b;
    sxx += a * a;
    syy += b * b;
    sxy += a * b;
  }
  const double spread = std::sqrt(std::max(0.0, sxx - sx * sx / n) * std::max(0.0, syy - sy * sy / n));
  return n > 2 && spread > 0 ? (sxy - sx * sy / n) / spread : 0;
}

struct BestOrder {
  std::vector<std::size_t> order;  // of golden axes; empty: their own
  double likeness = 0;
};

BestOrder best_order(const PoolValues& x, const PoolValues& y, std::size_t axes, std::int64_t count) {
  const PartView left(x.view());
  std::vector<std::vector<std::size_t>> orders = orders_of(axes);
  orders.insert(orders.begin(), std::vector<std::size_t>{});
  BestOrder best;
  for (std::vector<std::size_t>& order : orders) {
    PartView right(y.view());
    if (!order.empty()) right.permute(order);
    const double likeness = likeness_of(left, right, count);
    if (likeness > best.likeness) best = {std::move(order), likeness};
  }
  return best;
}

}  // namespace

double likeness_of(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other) {
  const PoolTensor &mine = target.tensors[tensor], &theirs = golden.tensors[other];
  if (mine.print.count != theirs.print.count || mine.print.count < 4) return 0;
  const auto x = target.values_of(tensor), y = golden.values_of(other);
  if (!x || !y) return 0;
  return best_order(x, y, theirs.shape.size(), static_cast<std::int64_t>(mine.print.count)).likeness;
}

TensorDifference difference_from(const Pool& target, std::uint32_t tensor, const Pool& golden, std::uint32_t other) {
  const PoolTensor &mine = target.tensors[tensor], &theirs = golden.tensors[other];
  const auto x = target.values_of(tensor), y = golden.values_of(other);
  if (!x || !y || mine.print.count != theirs.print.count) return {};
  PartView left(x.view()), right(y.view());
  const BestOrder best = best_order(x, y, theirs.shape.size(), static_cast<std::int64_t>(mine.print.count));
  if (!best.order.empty()) right.permute(best.order);
  return difference_of_sums(mine.of, theirs.of, compare_pair(left.view(), right.view(), {.all_sums = false}, in_order));
}

}  // namespace sonde
