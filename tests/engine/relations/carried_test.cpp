// Results that others read in a buffer or in a later step.
#include <cstddef>
#include <string>

#include "ask/relations/carried_data.h"
#include "relations/networks.h"

namespace sonde {
namespace {

constexpr std::size_t kCarriedWide = 8;

Pool pool_of(const Program& program, OpFamilies& families) {
  Pool pool(program.catalog(), {}, families);
  pool.read(Threads(1));
  return pool;
}

TEST(CarriedData, WhatAStepReadsIsTheResultOfTheStepBefore) {
  Program program;
  const Values x = numbers(kCarriedWide, 201), other = numbers(kCarriedWide, 202);
  program.add("tanh", {Program::parameter("data-0", other, "(8)")}, x, "(8)");
  program.next_step();
  program.add("exp", {Program::Ref{kNoSequence, "", x, "(8)"}}, each(x, tanh_of), "(8)");
  program.add("exp", {Program::parameter("data-0", x, "(8)")}, each(x, tanh_of), "(8)");
  OpFamilies families;
  Pool pool = pool_of(program, families);
  join_carried_data(pool);
  EXPECT_EQ(pool.ops[1].inputs, pool.ops[0].outputs);
  EXPECT_NE(pool.ops[2].inputs, pool.ops[0].outputs) << "data of the program has a name";
  EXPECT_EQ(pool.tensors[pool.ops[0].outputs[0]].readers, std::vector<std::uint32_t>{1});
}

// A copy into half of a buffer, which a slice reads.
Pool buffer_pool(Program& program, const Values& rest, OpFamilies& families) {
  const Values part = numbers(kCarriedWide, 203);
  Program::Ref copied = program.add("copy_", {Program::parameter("data-0", part, "(8)")}, part, "(8)");
  copied.values = joined(part, rest);
  copied.shape = "(16)";
  program.add("slice", {copied}, copied.values, "(16)");
  return pool_of(program, families);
}

TEST(CarriedData, TheReaderOfABufferReadsAllOfIt) {
  Program program;
  OpFamilies families;
  Pool pool = buffer_pool(program, numbers(kCarriedWide, 204), families);
  drop_padded_buffers(pool);
  const PoolTensor& read = pool.tensors[pool.ops[1].inputs[0]];
  EXPECT_EQ(read.print.count, 2 * kCarriedWide);
  EXPECT_EQ(read.op, 0U);
  const PoolTensor& part = pool.tensors[pool.ops[0].outputs[0]];
  EXPECT_EQ(part.readers, std::vector<std::uint32_t>{1}) << "something reads it";
}

TEST(CarriedData, ABufferThatOnlyPadsIsLeftOut) {
  Program program;
  OpFamilies families;
  Pool pool = buffer_pool(program, Values(kCarriedWide, 0.0F), families);
  drop_padded_buffers(pool);
  EXPECT_EQ(pool.ops[1].inputs[0], pool.ops[0].outputs[0]);
}

// Rows of a network whose modules the program calls one by one, so that each has a step; by statistics.
void add_called_rows(Program& program, bool is_golden, float factor = 1) {
  constexpr std::size_t kCalledRows = 3;
  const Values x = numbers(kCalledRows * kCarriedWide, 205), w = numbers(kCarriedWide * kCarriedWide, 206),
               v = numbers(kCarriedWide * kCarriedWide, 207);
  const std::string scope = is_golden ? "Default/net" : "Default/own";
  const auto weight = Program::parameter("w", w, "(8,8)"), other = Program::parameter("v", v, "(8,8)");
  for (std::size_t row = 0; row < (is_golden ? 1 : kCalledRows); ++row) {
    const auto begin = x.begin() + static_cast<std::ptrdiff_t>(row * kCarriedWide);
    const Values own = is_golden ? x : Values(begin, begin + kCarriedWide);
    const char* shape = is_golden ? "(3,8)" : "(1,8)";
    if (row > 0) program.next_step();
    const Values y = linear(own, w, kCarriedWide), bent = times(each(y, tanh_of), factor),
                 z = linear(bent, v, kCarriedWide);
    auto one = program.add(is_golden ? "linear" : "matmul", {Program::parameter("data-0", own, shape), weight}, y,
                           shape, scope);
    auto two = program.add("tanh", {one}, bent, shape, scope);
    for (const char* type : {"neg", "sin", "cos"}) {
      program.add(is_golden ? std::string("golden_") + type : type, {one}, each(y, square), shape, scope);
    }
    if (!is_golden) {
      program.next_step();
      two.op = kNoSequence;
    }
    auto three = program.add(is_golden ? "linear" : "einsum", {two, other}, z, shape, scope);
    program.add(is_golden ? "exp" : "golden_exp", {three}, each(z, logistic), shape, scope);
  }
  program.forget_all_values();
}

TEST(CarriedData, StatisticsOfTheStepsThatHaveAnOperatorAddUp) {
  Program golden, healthy, target;
  add_called_rows(golden, true);
  add_called_rows(healthy, false);
  add_called_rows(target, false, 1.5F);
  EXPECT_EQ(answer(related(healthy, golden)), "clean");
  const DumpComparison comparison = related(target, golden);
  EXPECT_EQ(answer(comparison).substr(0, 16), "tanh (uncertain)") << answer(comparison);
  EXPECT_EQ(comparison.findings.front().step, 0U);
}

}  // namespace
}  // namespace sonde
