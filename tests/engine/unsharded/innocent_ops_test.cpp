// A collective that adds up what the ranks have, as a sharded run needs it, and one that does not.
#include "ask/unsharded/innocent_ops.h"

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::uint32_t kAllReduce = 1;  // the op

// Two ranks, each with a tensor of its own, and with the same result of a collective.
class TwoRanks {
 public:
  TwoRanks(const Values& one, const Values& other, const Values& result) : TwoRanks(one, other, result, result) {}

  // Each has a result of its own: its piece of the sum.
  TwoRanks(const Values& one, const Values& other, const Values& result, const Values& other_result) {
    const bool has_pieces = result.size() < one.size();
    for (const auto& [program, own, its] : {std::tuple(&one_, &one, &result), {&other_, &other, &other_result}}) {
      const Program::Ref made = program->add("relu", {}, *own, "(8,8)");
      program->add(has_pieces ? "reduce_scatter_tensor" : "all_reduce", {made}, *its, has_pieces ? "(4,8)" : "(8,8)");
    }
  }

  void forget_values() {
    one_.forget_values();
    other_.forget_values();
  }

  bool adds_up() const {
    OpFamilies families;
    const auto step_of = [&](const Program& program) {
      const CatalogRank& rank = program.catalog().ranks[0];
      auto side = std::make_shared<CompareSide>(side_of(rank, rank.steps[0], families));
      SiteCalls calls(*side);
      return RankStep{&rank, std::move(side), 0, std::move(calls)};
    };
    const std::vector<RankStep> ranks = {step_of(one_), step_of(other_)}, golden = {step_of(one_)};
    Learned learned;
    const CompareOptions options;
    return adds_up_ranks(WholeStep(ranks, golden, options, learned), 0, kAllReduce);
  }

 private:
  Program one_, other_;
};

TEST(InnocentOps, ACollectiveAddsUpWhatTheRanksHave) {
  const Values one = numbers(64, 1), other = numbers(64, 2);
  Values sum = one;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  for (const bool by_statistics : {false, true}) {
    TwoRanks right(one, other, sum), mean(one, other, times(sum, 0.5F)), unchanged(one, other, one);
    if (by_statistics) {
      for (TwoRanks* ranks : {&right, &mean, &unchanged}) ranks->forget_values();
    }
    EXPECT_TRUE(right.adds_up()) << by_statistics;
    EXPECT_FALSE(mean.adds_up()) << by_statistics;
    EXPECT_FALSE(unchanged.adds_up()) << by_statistics;
  }
}

TEST(InnocentOps, EachRankMayHaveItsPieceOfTheSum) {
  const Values one = numbers(64, 1), other = numbers(64, 2);
  Values sum = one;
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += other[i];
  const Values first(sum.begin(), sum.begin() + 32), second(sum.begin() + 32, sum.end());
  for (const bool by_statistics : {false, true}) {
    TwoRanks right(one, other, first, second), mean(one, other, times(first, 0.5F), times(second, 0.5F)),
        twice(one, other, first, first);
    if (by_statistics) {
      for (TwoRanks* ranks : {&right, &mean, &twice}) ranks->forget_values();
    }
    EXPECT_TRUE(right.adds_up()) << by_statistics;
    EXPECT_FALSE(mean.adds_up()) << by_statistics;
    EXPECT_FALSE(twice.adds_up()) << by_statistics;
  }
}

}  // namespace
}  // namespace sonde
