#include "ask/unsharded/joined_statistics.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "ask/compare/tolerance.h"
#include "ground/base/shape.h"
#include "read/measure/measure.h"

namespace sonde {
namespace {

constexpr double kSameStatistics = 1e-6;  // relative
constexpr double kStepsOfRounding = 4;    // between numbers below the smallest normal one

// Statistics of a part, or of several that are joined.
struct Piece {
  KnownStatistics statistics;
  Dims shape;
  std::size_t rank = 0;
  bool is_sum = false;  // parts were added up
  double scale = 0;     // of their elements: the root mean square, as if they were not alike
  double elements() const { return static_cast<double>(element_count(shape)); }
};

std::optional<Piece> piece_of(const TensorOf& of) {
  CatalogTensor tensor = *of.tensor;
  if (!tensor.statistics) {
    Measurer measurer;
    if (const Status measured = measurer.measure(*of.rank, tensor); !measured) return std::nullopt;
  }
  if (!tensor.statistics || !tensor.has_shape) return std::nullopt;
  return Piece{*tensor.statistics, tensor.shape, 0};
}

bool are_near(const std::optional<double>& a, const std::optional<double>& b, double scale) {
  if (!a || !b) return a.has_value() == b.has_value();
  if (!std::isfinite(*a) || !std::isfinite(*b)) return *a == *b || (std::isnan(*a) && std::isnan(*b));
  return std::abs(*a - *b) <= kSameStatistics * std::max(std::abs(*a), scale);
}

bool are_alike_pieces(const Piece& a, const Piece& b) {
  const KnownStatistics &x = a.statistics, &y = b.statistics;
  const double scale = x.l2norm && a.elements() > 0 ? *x.l2norm / std::sqrt(a.elements()) : 0;
  return a.shape == b.shape && are_near(x.max, y.max, scale) && are_near(x.min, y.min, scale) &&
         are_near(x.avg, y.avg, scale) && are_near(x.l2norm, y.l2norm, scale);
}

// Replicas count once.
std::vector<Piece> different(const std::vector<Piece>& pieces) {
  std::vector<Piece> found;
  for (const Piece& piece : pieces) {
    const bool is_known =
        std::ranges::any_of(found, [&](const Piece& other) { return are_alike_pieces(piece, other); });
    if (!is_known) found.push_back(piece);
  }
  return found;
}

double elements_of(const std::vector<Piece>& pieces) {
  double sum = 0;
  for (const Piece& piece : pieces) sum += piece.elements();
  return sum;
}

template <typename T, typename Join>
void join_member(std::optional<T>& into, const std::optional<T>& other, const Join& join) {
  into = into && other ? std::optional<T>(join(*into, *other)) : std::nullopt;
}

Piece concatenated(const std::vector<Piece>& pieces, const Dims& shape) {
  Piece whole = pieces.front();
  whole.shape = shape;
  double sum = 0, squares = 0;
  for (const Piece& piece : pieces) {
    sum += piece.statistics.avg.value_or(NAN) * piece.elements();
    squares += std::pow(piece.statistics.l2norm.value_or(NAN), 2);
    if (&piece == &pieces.front()) continue;
    KnownStatistics& all = whole.statistics;
    join_member(all.max, piece.statistics.max, [](double a, double b) { return a > b ? a : b; });
    join_member(all.min, piece.statistics.min, [](double a, double b) { return a < b ? a : b; });
    for_each_statistic_member([&](std::string_view, auto member) {
      if constexpr (std::is_same_v<decltype(member), std::optional<std::uint64_t> KnownStatistics::*>) {
        join_member(all.*member, piece.statistics.*member, [](std::uint64_t a, std::uint64_t b) { return a + b; });
      }
    });
  }
  if (whole.statistics.avg) whole.statistics.avg = sum / whole.elements();
  if (whole.statistics.l2norm) whole.statistics.l2norm = std::sqrt(squares);
  return whole;
}

// A flat buffer that ranks share out ends in equal numbers where its elements are not a multiple of theirs: as many as one
// process does not have. 0: it has no such end.
double padding_of(const std::vector<Piece>& pieces, const Piece& golden) {
  const auto is_flat = [](const Piece& piece) { return piece.shape.size() == 1; };
  const double surplus = elements_of(pieces) - golden.elements();
  const bool may_be = is_flat(golden) && std::ranges::all_of(pieces, is_flat) && surplus > 0;
  return may_be && 2 * surplus <= pieces.back().elements() ? surplus : 0;
}

// The numbers at its end: zeros, or in what was computed of them the least or the largest.
std::vector<double> may_be_padding(const KnownStatistics& last, double padding) {
  std::vector<double> found;
  if (!last.zero_count || static_cast<double>(*last.zero_count) >= padding) found.push_back(0);
  for (const std::optional<double>& extreme : {last.min, last.max}) {
    if (extreme && std::isfinite(*extreme)) found.push_back(*extreme);
  }
  return found;
}

Piece without_padding(Piece whole, double padding, double number, const Dims& shape) {
  KnownStatistics& all = whole.statistics;
  const double left = whole.elements() - padding;
  if (all.avg) all.avg = (*all.avg * whole.elements() - padding * number) / left;
  if (all.l2norm) all.l2norm = std::sqrt(std::max(0.0, *all.l2norm * *all.l2norm - padding * number * number));
  if (all.min == number) all.min.reset();
  if (all.max == number) all.max.reset();
  all.zero_count.reset();
  all.positive_count.reset();
  all.negative_count.reset();
  whole.shape = shape;
  return whole;
}

Piece added_up(const std::vector<Piece>& pieces) {
  Piece whole{{}, pieces.front().shape, 0};
  double sum = 0, squares = 0;
  std::uint64_t not_finite = 0;
  for (const Piece& piece : pieces) {
    sum += piece.statistics.avg.value_or(NAN);
    squares += std::pow(piece.statistics.l2norm.value_or(0), 2);
    not_finite += piece.statistics.non_finite_count() + !piece.statistics.all_finite();
  }
  whole.statistics.avg = sum;
  whole.statistics.nan_count = not_finite;
  whole.is_sum = true;
  whole.scale = std::sqrt(squares / std::max(1.0, whole.elements()));
  return whole;
}

// Norms of parts: of several the norm alone is known.
Piece added_in_squares(const std::vector<Piece>& pieces) {
  Piece whole{{}, pieces.front().shape, 0};
  double squares = 0;
  for (const Piece& piece : pieces) {
    squares += std::pow(piece.statistics.l2norm.value_or(NAN), 2);
    whole.statistics.nan_count = whole.statistics.nan_count.value_or(0) + piece.statistics.non_finite_count();
  }
  KnownStatistics& all = whole.statistics;
  all.l2norm = std::sqrt(squares);
  if (whole.elements() == 1) all.max = all.min = all.avg = all.l2norm;
  return whole;
}

double factor_of_statistics(const KnownStatistics& whole, const KnownStatistics& golden,
                            const std::vector<double>& factors) {
  const bool by_norm = whole.l2norm && golden.l2norm && *golden.l2norm > 0;
  const double ratio = by_norm                                                ? *whole.l2norm / *golden.l2norm
                       : whole.avg && golden.avg && std::abs(*golden.avg) > 0 ? *whole.avg / *golden.avg
                                                                              : 1;
  return *std::ranges::min_element(factors, {}, [&](double factor) { return std::abs(ratio / factor - 1); });
}

void divide(KnownStatistics& statistics, double factor) {
  for (auto member : {&KnownStatistics::max, &KnownStatistics::min, &KnownStatistics::avg, &KnownStatistics::l2norm}) {
    if (statistics.*member) *(statistics.*member) /= factor;
  }
}

// As for values (joined_tensor.cpp), but the size of the rounding before it is not known: it may be some spacings in each
// row, and in the largest elements.
bool may_be_rounding(const TensorDifference& found, const Piece& golden, double spacing) {
  constexpr double kRounding = 16;
  return found.relative() <= spacing * std::max(1.0, kRounding * left_by_chance(found, golden.shape));
}

// Most of the error is one factor, of the norm and of both extremes alike: rounding does not scale all elements of a half
// type so far.
bool is_factor_alone(const KnownStatistics& own, const Piece& golden_piece, double spacing) {
  constexpr double kSpacingsOff = 8, kApart = 8, kFewest = 64;
  const KnownStatistics& golden = golden_piece.statistics;
  if (golden_piece.elements() < kFewest || !own.all_finite() || !golden.all_finite()) return false;
  std::vector<double> factors;
  for (auto member : {&KnownStatistics::l2norm, &KnownStatistics::max, &KnownStatistics::min}) {
    const std::optional<double>&a = own.*member, &b = golden.*member;
    if (!a || !b || *a == 0 || *b == 0) return false;
    factors.push_back(*a / *b);
  }
  const double off = std::abs(factors.front() - 1);
  return off > kSpacingsOff * spacing &&
         std::ranges::all_of(factors, [&](double factor) { return std::abs(factor - factors.front()) < off / kApart; });
}

struct WayToJoin {
  std::string_view words;
  bool is_cut = false, is_sum = false, is_of_squares = false;
};

constexpr WayToJoin kSame{.words = "the same on each"};
constexpr WayToJoin kConcatenated{.words = "concatenated", .is_cut = true};
constexpr WayToJoin kAddedUp{.words = "added up", .is_sum = true};
constexpr WayToJoin kInSquares{.words = "added up in squares", .is_of_squares = true};

class StatisticsJoiner {
 public:
  StatisticsJoiner(const TensorOf& part, const TensorOf& golden, const Piece& golden_piece, const JoinLimits& limits)
      : part_(part), golden_(golden), golden_piece_(golden_piece), limits_(limits) {}

  bool fits(const Piece& whole) { return difference_of(whole, 1).second; }
  void look_at(const Piece& whole, const WayToJoin& way);
  Joined take() { return std::move(best_); }

 private:
  std::pair<TensorDifference, bool> difference_of(const Piece& whole, double factor) const;

  const TensorOf& part_;
  const TensorOf& golden_;
  const Piece& golden_piece_;
  const JoinLimits& limits_;
  Joined best_;
};

std::pair<TensorDifference, bool> StatisticsJoiner::difference_of(const Piece& whole, double factor) const {
  const auto without_values = [](const TensorOf& of, const KnownStatistics& statistics, const Dims& shape) {
    CatalogTensor tensor = *of.tensor;
    tensor.file = tensor.md5 = tensor.sha1 = {};
    tensor.statistics = statistics;
    tensor.shape = shape;
    return tensor;
  };
  KnownStatistics statistics = whole.statistics;
  divide(statistics, factor);
  const CatalogTensor target = without_values(part_, statistics, golden_piece_.shape);
  const CatalogTensor golden = without_values(golden_, golden_piece_.statistics, golden_piece_.shape);
  TensorDifference found =
      sonde::difference_of({part_.rank, &target}, {golden_.rank, &golden}, DifferenceOptions{}, in_order);
  // Of a sum of golden parts the mean alone is known, which may be much less than the elements.
  if (golden_piece_.is_sum) {
    const double own =
        statistics.l2norm ? *statistics.l2norm / std::sqrt(golden_piece_.elements()) : golden_piece_.scale;
    found.rms = std::max(found.rms, own);
  }
  const double spacing =
      std::max(limits_.spacing, found.rms > 0 ? kStepsOfRounding * limits_.least_step / found.rms : 0);
  const bool fits =
      found.by == ComparedBy::statistics && found.different_non_finite == 0 &&
      found.rms_error <= limits_.tolerance * found.rms + limits_.least &&
      (!limits_.by_statistics_too || may_be_rounding(found, golden_piece_, spacing)) &&
      (limits_.spacing == 0 || !is_factor_alone(statistics, golden_piece_, spacing)) &&
      std::isfinite(statistics.avg.value_or(0)) == std::isfinite(golden_piece_.statistics.avg.value_or(0));
  return {std::move(found), fits};
}

void StatisticsJoiner::look_at(const Piece& whole, const WayToJoin& way) {
  if (best_.fits && !limits_.are_norms) return;
  const double factor = factor_of_statistics(whole.statistics, golden_piece_.statistics, limits_.factors);
  auto [difference, fits] = difference_of(whole, factor);
  if (best_.possible && !fits) return;
  // Of norms, the nearest counts: in a half type, one that is a root of 2 too large fits, too.
  if (best_.fits && difference.relative() >= best_.difference.relative()) return;
  best_.possible = true;
  best_.fits = fits;
  best_.is_cut = way.is_cut;
  best_.is_sum = way.is_sum;
  best_.is_of_squares = way.is_of_squares;
  best_.factor = factor;
  best_.words = way.words;
  best_.difference = std::move(difference);
}

// Of all parts; nothing: one has none.
std::optional<std::vector<Piece>> pieces_of(const TensorParts& parts) {
  std::vector<Piece> pieces;
  for (std::size_t rank = 0; rank < parts.ranks(); ++rank) {
    for (std::size_t call = 0; call < parts.calls(); ++call) {
      if (parts.at(rank, call).tensor == nullptr) continue;
      std::optional<Piece> piece = piece_of(parts.at(rank, call));
      if (!piece) return std::nullopt;
      piece->rank = rank;
      pieces.push_back(std::move(*piece));
    }
  }
  return pieces;
}

// A shape with all elements: the statistics of a concatenation are the same along each dimension.
Dims shape_together(const std::vector<Piece>& pieces) { return {static_cast<std::int64_t>(elements_of(pieces))}; }

// Tensors that may have the golden parts.
std::vector<Piece> golden_wholes(const std::vector<Piece>& pieces) {
  const std::vector<Piece> distinct = different(pieces);
  if (distinct.size() == 1) return distinct;
  std::vector<Piece> wholes = {concatenated(pieces, shape_together(pieces)), added_up(distinct)};
  if (distinct.size() < pieces.size()) wholes.push_back(concatenated(distinct, shape_together(distinct)));
  return wholes;
}

Joined join_pieces(const std::vector<Piece>& pieces, const Piece& golden, StatisticsJoiner joiner,
                   const JoinLimits& limits) {
  const std::vector<Piece> distinct = different(pieces);
  const double wanted = golden.elements();
  const bool is_whole = pieces.front().elements() == wanted;
  if (is_whole && distinct.size() == 1) joiner.look_at(distinct.front(), kSame);
  for (const std::vector<Piece>* some : std::initializer_list<const std::vector<Piece>*>{&pieces, &distinct}) {
    const bool is_cut = some->size() > 1 && elements_of(*some) == wanted;
    if (is_cut) joiner.look_at(concatenated(*some, golden.shape), kConcatenated);
    const double padding = padding_of(*some, golden);
    if (padding == 0) continue;
    const bool is_padded_cut = some->size() > 1;
    const Piece padded = is_padded_cut ? concatenated(*some, shape_together(*some)) : some->front();
    for (const double number : may_be_padding(some->back().statistics, padding)) {
      joiner.look_at(without_padding(padded, padding, number, golden.shape), is_padded_cut ? kConcatenated : kSame);
    }
  }
  for (const std::vector<Piece>* some : std::initializer_list<const std::vector<Piece>*>{&distinct, &pieces}) {
    if (is_whole && some->size() > 1 && limits.are_norms) joiner.look_at(added_in_squares(*some), kInSquares);
  }
  if (is_whole && distinct.size() > 1 && !limits.are_norms) joiner.look_at(added_up(distinct), kAddedUp);
  std::vector<std::size_t> apart;
  for (const Piece& piece : pieces) {
    if (is_whole && !joiner.fits(piece)) apart.push_back(piece.rank);
  }
  Joined joined = joiner.take();
  joined.tolerance = limits.tolerance;
  if (!joined.fits && apart.size() < pieces.size()) joined.other_ranks = std::move(apart);
  return joined;
}

}  // namespace

Joined join_statistics(const TensorParts& parts, const TensorParts& golden, const JoinLimits& limits) {
  const TensorOf *first = parts.first(), *first_golden = golden.first();
  if (first == nullptr || first_golden == nullptr) return {};
  const std::optional<std::vector<Piece>> pieces = pieces_of(parts), golden_pieces = pieces_of(golden);
  if (!pieces || !golden_pieces) return {};
  Joined best;
  for (const Piece& whole : golden_wholes(*golden_pieces)) {
    if (whole.is_sum && !limits.golden_sums) continue;
    Joined joined = join_pieces(*pieces, whole, {*first, *first_golden, whole, limits}, limits);
    joined.golden_is_sum = whole.is_sum;
    if (joined.fits) return joined;
    if (joined.possible && !best.possible) best = std::move(joined);
  }
  return best;
}

}  // namespace sonde
