// Tensors that are nothing but rounding, and what is kept of them for the backward pass.
#include "ask/unsharded/noise.h"

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

namespace sonde {
namespace {

// A norm that shows its result, and keeps the mean of its rows; and a product with another number.
struct Norm {
  Norm() {
    norm.sequence = 7;
    product.sequence = 8;
    result.slot = 0;
    side.ops.resize(2);
    side.ops[0].op = &norm;
    side.ops[0].outputs = {&result};
    side.ops[1].op = &product;
    mean.tensor = &kept;
    mean.from = 0;
    mean.from_slot = 1;
  }

  CatalogOp norm, product;
  CatalogTensor result, kept;
  CompareSide side;
  CompareInput mean;
};

TEST(Noise, WhatANormKeepsOfNoiseIsNoise) {
  Norm of;
  NoiseOfOutputs known;
  Noise noise(of.side, known);
  EXPECT_FALSE(noise.is_in(of.mean));
  noise.set(0, 0, 1e-9);
  EXPECT_TRUE(noise.is_in(of.mean));
}

TEST(Noise, ItIsOfThatOpAlone) {
  Norm of;
  NoiseOfOutputs known = {{{8, 0}, 1e-9}};
  const Noise noise(of.side, known);
  EXPECT_FALSE(noise.is_in(of.mean));
}

// Two gradients of 32 and 4 elements are written into a bucket of 36; it is added up over the ranks; views show its parts.
struct Bucket {
  Bucket() {
    side.ops.resize(5);
    for (std::size_t i = 0; i < 5; ++i) {
      ops[i].sequence = i + 1;
      ops[i].op_type = types[i];
      written[i].shape = Dims(std::vector<std::int64_t>{sizes[i]});
      read[i].shape = Dims(std::vector<std::int64_t>{36});
      written[i].has_shape = read[i].has_shape = true;
      side.ops[i].op = &ops[i];
      side.ops[i].outputs = {&written[i]};
      CompareInput memory;
      memory.tensor = &read[i];
      if (i > 0) memory.from = i < 3 ? static_cast<std::uint32_t>(i) - 1 : 2;
      memory.is_read = i > 1;  // the first two only get a result there
      side.ops[i].inputs = {memory};
    }
    side.ops[2].in_place = true;
  }

  static constexpr std::array<std::string_view, 5> types = {"mul", "mul", "allreduce_", "as_strided", "as_strided"};
  static constexpr std::array<std::int64_t, 5> sizes = {32, 4, 36, 32, 4};
  std::array<CatalogOp, 5> ops;
  std::array<CatalogTensor, 5> written, read;
  CompareSide side;
};

TEST(Noise, OfABucketEachPartHasItsOwn) {
  const Bucket of;
  NoiseOfOutputs known;
  Noise noise(of.side, known);
  noise.set(0, 0, 1e-9);
  for (std::uint32_t op = 2; op < 5; ++op) noise.pass_on(op);
  EXPECT_TRUE(noise.is_in(of.side.ops[2].inputs[0]));
  CompareInput large, small;
  large.tensor = &of.written[3];
  large.from = 3;
  small.tensor = &of.written[4];
  small.from = 4;
  EXPECT_TRUE(noise.is_in(large));
  EXPECT_FALSE(noise.is_in(small));
}

}  // namespace
}  // namespace sonde
