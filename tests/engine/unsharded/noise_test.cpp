// Tensors that are nothing but rounding, and what is kept of them for the backward pass.
#include "ask/unsharded/noise.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace sonde
