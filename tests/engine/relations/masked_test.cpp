// Masks whose large numbers hide scores: beside them everything is small, and all masks are alike.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>

#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kMaskedTokens = 6, kHeadWide = 8;
constexpr float kLeast = -3.4e38F;

Values masked_shares(Values scores) {
  for (std::size_t row = 0; row < kMaskedTokens; ++row) {
    const auto begin = scores.begin() + static_cast<std::ptrdiff_t>(row * kMaskedTokens), end = begin + kMaskedTokens;
    const float largest = *std::max_element(begin, end);
    float total = 0;
    for (auto one = begin; one != end; ++one) total += * one = std::exp(*one - largest);
    for (auto one = begin; one != end; ++one) *one /= total;
  }
  return scores;
}

Values causal_mask() {
  Values mask(kMaskedTokens * kMaskedTokens);
  for (std::size_t i = 0; i < mask.size(); ++i) mask[i] = i % kMaskedTokens > i / kMaskedTokens ? kLeast : 0;
  return mask;
}

struct MaskedAttention {
  bool is_written_out = true, is_masked = true, is_masked_at_once = false;
  float factor = 1;  // of the result
  const char* scope = "Default/net";
};

void add_masked_attention(Program& program, const MaskedAttention& how) {
  const bool is_golden = std::string(how.scope) == "Default/net";
  const Values q = numbers(kMaskedTokens * kHeadWide, 211), k = numbers(kMaskedTokens * kHeadWide, 212),
               v = numbers(kMaskedTokens * kHeadWide, 213), w = numbers(kHeadWide * kHeadWide, 214);
  const Values raw = linear(q, k, kHeadWide), factor(1, 1 / std::sqrt(8.0F)), scores = both(raw, factor, product);
  const Values masked = how.is_masked ? both(scores, causal_mask(), sum) : scores, share = masked_shares(masked);
  const Values y = times(linear(share, transposed(v, kMaskedTokens), kMaskedTokens), how.factor);
  const auto queries = Program::parameter("data-0", q, "(6,8)"), keys = Program::parameter("data-1", k, "(6,8)"),
             values = Program::parameter("data-2", v, "(6,8)");
  Program::Ref mask = program.add(is_golden ? "triu" : "own_triu", {}, causal_mask(), "(6,6)", how.scope);
  Program::Ref mixed;
  if (how.is_masked_at_once) {
    auto one = program.add("baddbmm", {mask, queries, keys}, masked, "(6,6)", how.scope);
    mixed =
        program.add("bmm", {program.add("softmax", {one}, share, "(6,6)", how.scope), values}, y, "(6,8)", how.scope);
  } else if (how.is_written_out) {
    auto one = program.add(is_golden ? "einsum" : "matmul", {queries, keys}, scores, "(6,6)", how.scope);
    if (how.is_masked) one = program.add("add", {one, mask}, masked, "(6,6)", how.scope);
    auto two = program.add("softmax", {one}, share, "(6,6)", how.scope);
    mixed = program.add(is_golden ? "bmm" : "mm", {two, values}, y, "(6,8)", how.scope);
  } else {
    mixed = program.add("scaled_dot_product_attention", {queries, keys, values, mask}, y, "(6,8)", how.scope);
  }
  program.add(is_golden ? "linear" : "own_linear", {mixed, Program::parameter("w", w, "(8,8)")},
              linear(y, w, kHeadWide), "(6,8)", how.scope);
}

TEST(RelationsOfMasks, TheResultOfAnAttentionIsNoRoundingBesideItsMask) {
  Program golden, healthy, target;
  add_masked_attention(golden, {});
  add_masked_attention(healthy, {.is_written_out = false, .scope = "Default/own"});
  add_masked_attention(target, {.is_written_out = false, .factor = 1.5F, .scope = "Default/own"});
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 28), "scaled_dot_product_attention") << said;
}

TEST(RelationsOfMasks, TheOperatorThatReadsScoresWithoutTheirMaskIsNamed) {
  Program golden, target;
  add_masked_attention(golden, {.is_masked_at_once = true});
  add_masked_attention(target, {.is_masked = false, .scope = "Default/own"});
  const std::string said = answer(related(target, golden));
  EXPECT_EQ(said.substr(0, 51), "softmax (uncertain): reads the result of matmul Def") << said;
  EXPECT_NE(said.find("without the mask that golden baddbmm"), std::string::npos) << said;
}

}  // namespace
}  // namespace sonde
