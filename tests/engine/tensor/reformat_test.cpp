#include "ground/tensor/reformat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>

namespace sonde {
namespace {

using Shape = std::vector<std::int64_t>;
using Array = std::vector<std::uint32_t>;
using testing::ElementsAre;

std::int64_t product(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// 1, 2, 3, …: all elements differ from each other, and from padding.
Array counting(std::int64_t elements) {
  Array array(elements);
  std::iota(array.begin(), array.end(), 1U);
  return array;
}

Array applied(const Reformat& plan, const Array& from) {
  Array to(plan.elements(), 0xEEEEEEEE);
  plan.copy(reinterpret_cast<const std::byte*>(from.data()), reinterpret_cast<std::byte*>(to.data()), 4);
  return to;
}

struct Made {
  Shape shape;
  Array values;
};

Made reformatted(const StoredShape& from, const Array& values, Format to, std::optional<LogicalShape> real = {},
                 std::int64_t block = 16) {
  const Result<Reformat> plan = plan_reformat(from, to, real, block);
  EXPECT_TRUE(plan) << plan.error().message;
  if (!plan) return {};
  return {plan->shape(), applied(*plan, values)};
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// --- the place of an element, from CANN's definition of each format
// ----------------------------------------------------

struct Image {
  std::int64_t n = 1, c = 1, d = 1, h = 1, w = 1;
};

struct Known {
  Format format;
  std::function<Shape(const Image&, std::int64_t b)> shape;
  std::function<Shape(const Image&, std::int64_t b)> at;  // the coordinates of the element with these indices
};

const std::vector<Known>& plain() {
  static const std::vector<Known> table = {
      {Format::nchw,
       [](Image i, auto) {
         return Shape{i.n, i.c, i.h, i.w};
       },
       {}},
      {Format::nhwc,
       [](Image i, auto) {
         return Shape{i.n, i.h, i.w, i.c};
       },
       {}},
      {Format::hwcn,
       [](Image i, auto) {
         return Shape{i.h, i.w, i.c, i.n};
       },
       {}},
      {Format::chwn,
       [](Image i, auto) {
         return Shape{i.c, i.h, i.w, i.n};
       },
       {}},
  };
  return table;
}

const std::vector<Known>& plain_3d() {
  static const std::vector<Known> table = {
      {Format::ncdhw,
       [](Image i, auto) {
         return Shape{i.n, i.c, i.d, i.h, i.w};
       },
       {}},
      {Format::ndhwc,
       [](Image i, auto) {
         return Shape{i.n, i.d, i.h, i.w, i.c};
       },
       {}},
      {Format::dhwcn,
       [](Image i, auto) {
         return Shape{i.d, i.h, i.w, i.c, i.n};
       },
       {}},
  };
  return table;
}

const std::vector<Known>& blocked() {
  static const std::vector<Known> table = {
      {Format::nc1hwc0,
       [](Image i, auto b) {
         return Shape{i.n, ceil_div(i.c, b), i.h, i.w, b};
       },
       [](Image i, auto b) {
         return Shape{i.n, i.c / b, i.h, i.w, i.c % b};
       }},
      {Format::c1hwnc0,
       [](Image i, auto b) {
         return Shape{ceil_div(i.c, b), i.h, i.w, i.n, b};
       },
       [](Image i, auto b) {
         return Shape{i.c / b, i.h, i.w, i.n, i.c % b};
       }},
      {Format::c1hwncoc0, [](Image i, auto b) { return Shape{ceil_div(i.c, b), i.h, i.w, i.n, b, b}; },
       [](Image i, auto b) { return Shape{i.c / b, i.h, i.w, i.n, i.c % b, i.c % b}; }},
  };
  return table;
}

const Known kFractalZ = {Format::fractal_z,
                         [](Image i, auto b) {
                           return Shape{ceil_div(i.c, b) * i.h * i.w, ceil_div(i.n, b), b, b};
                         },
                         {}};

std::int64_t flat(const Shape& shape, const Shape& at) {
  std::int64_t index = 0;
  for (std::size_t i = 0; i < shape.size(); ++i) index = index * shape[i] + at[i];
  return index;
}

void for_each(const Image& size, const std::function<void(const Image&)>& visit) {
  Image i;
  for (i.n = 0; i.n < size.n; ++i.n)
    for (i.c = 0; i.c < size.c; ++i.c)
      for (i.d = 0; i.d < size.d; ++i.d)
        for (i.h = 0; i.h < size.h; ++i.h)
          for (i.w = 0; i.w < size.w; ++i.w) visit(i);
}

// A plain format's coordinates are its shape function, applied to indices.
Shape at(const Known& known, const Image& i, std::int64_t b) { return known.at ? known.at(i, b) : known.shape(i, b); }

// The image 1, 2, 3, … in `known`, zeros where it is padded.
Made image_in(const Known& known, const Image& size, std::int64_t b) {
  Made made{known.shape(size, b), Array(product(known.shape(size, b)), 0)};
  std::uint32_t value = 0;
  for_each(size, [&](const Image& i) { made.values[flat(made.shape, at(known, i, b))] = ++value; });
  return made;
}

const Image kSizes[] = {{1, 1, 1, 1, 1}, {2, 16, 1, 3, 5}, {3, 20, 1, 2, 2}, {1, 33, 1, 7, 1}, {17, 5, 1, 1, 9}};

TEST(Reformat, EveryPlainFormatIntoEveryOther) {
  for (const Image& size : kSizes) {
    for (const Known& from : plain()) {
      for (const Known& to : plain()) {
        const Made source = image_in(from, size, 16), expected = image_in(to, size, 16);
        const Made made = reformatted({from.format, source.shape}, source.values, to.format);
        EXPECT_EQ(made.shape, expected.shape) << name_of(from.format) << " to " << name_of(to.format);
        EXPECT_EQ(made.values, expected.values) << name_of(from.format) << " to " << name_of(to.format);
      }
    }
  }
}

TEST(Reformat, BlockedFormatsAndBackForEveryBlock) {
  for (const Image& size : kSizes) {
    for (const std::int64_t b : {4, 8, 16, 32, 64}) {
      for (const Known& block : blocked()) {
        for (const Known& other : plain()) {
          const Made there = image_in(block, size, b), here = image_in(other, size, b);
          const Made packed = reformatted({other.format, here.shape}, here.values, block.format, {}, b);
          EXPECT_EQ(packed.shape, there.shape) << name_of(other.format) << " to " << name_of(block.format);
          EXPECT_EQ(packed.values, there.values) << name_of(other.format) << " to " << name_of(block.format);
          const Made plain = reformatted({block.format, there.shape}, there.values, other.format,
                                         LogicalShape{other.format, here.shape});
          EXPECT_EQ(plain.shape, here.shape) << name_of(block.format) << " to " << name_of(other.format);
          EXPECT_EQ(plain.values, here.values) << name_of(block.format) << " to " << name_of(other.format);
        }
      }
    }
  }
}

TEST(Reformat, WithoutARealShapeThePaddingStays) {
  const Made source = image_in(blocked()[0], {1, 3, 1, 2, 1}, 4);
  const Made made = reformatted({Format::nc1hwc0, source.shape}, source.values, Format::nchw);
  EXPECT_EQ(made.shape, (Shape{1, 4, 2, 1}));
  EXPECT_THAT(made.values, ElementsAre(1, 2, 3, 4, 5, 6, 0, 0));
}

TEST(Reformat, OneBlockSizeIntoAnother) {
  const Known& known = blocked()[0];
  for (const auto& [from, to] : {std::pair{4, 16}, std::pair{32, 16}, std::pair{16, 64}}) {
    const Image size = {2, 37, 1, 3, 2};
    const Made source = image_in(known, size, from), expected = image_in(known, size, to);
    const Made made = reformatted({known.format, source.shape}, source.values, known.format,
                                  LogicalShape{Format::nchw, {2, 37, 3, 2}}, to);
    EXPECT_EQ(made.shape, expected.shape);
    EXPECT_EQ(made.values, expected.values);
  }
}

// --- FRACTAL_Z ---------------------------------------------------------------------------------------------------------

// From the definition: groups that share a block, blocks one after the other.
Made fractal_z_of(const Image& size, std::int64_t groups, std::int64_t b) {
  const std::int64_t n = size.n / groups, c = size.c;
  const std::int64_t together = std::min(std::lcm(std::lcm(c, b) / c, std::lcm(n, b) / n), groups);
  const std::int64_t c1 = ceil_div(together * c, b), n1 = ceil_div(together * n, b), pixels = size.h * size.w;
  Made made{{ceil_div(groups, together) * size.d * c1 * pixels, n1, b, b}, {}};
  made.values.assign(product(made.shape), 0);
  std::uint32_t value = 0;
  for_each(size, [&](const Image& i) {
    const std::int64_t g = i.n / n, e = g % together, dc = e * c + i.c, dn = e * n + i.n % n;
    const std::int64_t row = ((g / together * size.d + i.d) * c1 + dc / b) * pixels + i.h * size.w + i.w;
    made.values[flat(made.shape, {row, dn / b, dn % b, dc % b})] = ++value;
  });
  return made;
}

TEST(Reformat, FractalZWithGroupsAndBack) {
  struct Case {
    Image size;
    std::int64_t groups;
  };
  const Case cases[] = {{{20, 5, 1, 3, 3}, 1},  {{16, 16, 1, 1, 1}, 1}, {{8, 3, 1, 2, 3}, 4},  {{4, 1, 1, 2, 3}, 4},
                        {{40, 1, 1, 3, 3}, 40}, {{64, 1, 1, 1, 2}, 64}, {{6, 20, 1, 2, 2}, 3}, {{96, 24, 1, 1, 1}, 2}};
  for (const auto& [size, groups] : cases) {
    for (const Known& other : plain()) {
      const Made expected = fractal_z_of(size, groups, 16), source = image_in(other, size, 16);
      const Made packed = reformatted({other.format, source.shape, groups}, source.values, Format::fractal_z);
      EXPECT_EQ(packed.shape, expected.shape) << groups << " groups from " << name_of(other.format);
      EXPECT_EQ(packed.values, expected.values) << groups << " groups from " << name_of(other.format);
      const Made back = reformatted({Format::fractal_z, expected.shape, groups}, expected.values, other.format,
                                    LogicalShape{other.format, source.shape});
      EXPECT_EQ(back.shape, source.shape) << groups << " groups to " << name_of(other.format);
      EXPECT_EQ(back.values, source.values) << groups << " groups to " << name_of(other.format);
    }
  }
}

TEST(Reformat, FractalZ3dWithGroupsAndBack) {
  for (const std::int64_t groups : {1, 2, 18}) {
    const Image size = {18, 3, 2, 2, 1};
    for (const Known& other : plain_3d()) {
      const Made expected = fractal_z_of(size, groups, 16), source = image_in(other, size, 16);
      const Made packed = reformatted({other.format, source.shape, groups}, source.values, Format::fractal_z_3d);
      EXPECT_EQ(packed.shape, expected.shape);
      EXPECT_EQ(packed.values, expected.values) << groups << " groups from " << name_of(other.format);
      const Made back = reformatted({Format::fractal_z_3d, expected.shape, groups}, expected.values, other.format,
                                    LogicalShape{other.format, source.shape});
      EXPECT_EQ(back.values, source.values) << groups << " groups to " << name_of(other.format);
    }
  }
}

TEST(Reformat, FractalZC04PutsFourChannelsOfFourPixelsSideBySide) {
  const Image size = {18, 3, 1, 2, 3};
  Made expected{{2, 2, 16, 16}, Array(1024, 0)};
  std::uint32_t value = 0;
  for_each(size, [&](const Image& i) {
    const std::int64_t k = (i.h * size.w + i.w) * 4 + i.c;
    expected.values[flat(expected.shape, {k / 16, i.n / 16, i.n % 16, k % 16})] = ++value;
  });
  for (const Known& other : plain()) {
    const Made source = image_in(other, size, 16);
    const Made packed = reformatted({other.format, source.shape}, source.values, Format::fractal_z_c04);
    EXPECT_EQ(packed.shape, expected.shape);
    EXPECT_EQ(packed.values, expected.values) << name_of(other.format);
    const Made back = reformatted({Format::fractal_z_c04, expected.shape}, expected.values, other.format,
                                  LogicalShape{other.format, source.shape});
    EXPECT_EQ(back.values, source.values) << name_of(other.format);
  }
}

// --- matrices, three dimensions --------------------------------------------------------------------------------------

TEST(Reformat, FractalNzOfAnyRankAndBack) {
  const Shape shapes[] = {{5}, {3, 5}, {16, 32}, {17, 33}, {2, 20, 7}, {2, 3, 17, 16}, {1, 1, 1, 1, 1}};
  for (const Shape& shape : shapes) {
    for (const std::int64_t b : {8, 16, 32}) {
      const Array values = counting(product(shape));
      const Made packed = reformatted({Format::nd, shape}, values, Format::fractal_nz, {}, b);
      const std::int64_t k = shape.back(), m = shape.size() > 1 ? shape[shape.size() - 2] : 1;
      Shape expected(shape.begin(), shape.end() - std::min<std::size_t>(2, shape.size()));
      expected.insert(expected.end(), {ceil_div(k, b), ceil_div(m, b), b, b});
      ASSERT_EQ(packed.shape, expected);
      const std::int64_t matrix = expected[expected.size() - 4] * expected[expected.size() - 3] * b * b;
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(values.size()); ++i) {
        const std::int64_t l = i / (m * k), row = i / k % m, column = i % k;
        const std::int64_t place =
            ((column / b * expected[expected.size() - 3] + row / b) * b + row % b) * b + column % b;
        ASSERT_EQ(packed.values[l * matrix + place], values[i]);
      }
      for (const Format to : {Format::nd, Format::nchw, Format::nhwc}) {
        const Made back =
            reformatted({Format::fractal_nz, packed.shape}, packed.values, to, LogicalShape{Format::nd, shape});
        EXPECT_EQ(back.shape, shape);
        EXPECT_EQ(back.values, values);
      }
    }
  }
}

TEST(Reformat, FractalNzRefusesLeadingDimensionsThatAreOthers) {
  const auto plan =
      plan_reformat({Format::fractal_nz, {2, 1, 1, 16, 16}}, Format::nd, LogicalShape{Format::nd, {3, 16, 16}});
  ASSERT_FALSE(plan);
  EXPECT_THAT(plan.error().message, testing::HasSubstr("does not fit"));
}

TEST(Reformat, ThreeDimensionalImages) {
  const Image size = {2, 19, 3, 2, 4};
  const Known known = {Format::ndc1hwc0, [](Image i, auto b) { return Shape{i.n, i.d, ceil_div(i.c, b), i.h, i.w, b}; },
                       [](Image i, auto b) { return Shape{i.n, i.d, i.c / b, i.h, i.w, i.c % b}; }};
  const Made there = image_in(known, size, 16);
  for (const Known& other : plain_3d()) {
    const Made here = image_in(other, size, 16);
    EXPECT_EQ(reformatted({other.format, here.shape}, here.values, known.format).values, there.values);
    const Made back =
        reformatted({known.format, there.shape}, there.values, other.format, LogicalShape{other.format, here.shape});
    EXPECT_EQ(back.values, here.values);
  }
}

// --- parts, item sizes, hostile shapes ---------------------------------------------------------------------------------

TEST(Reformat, PartsAndItemsOfAnySizeAreTheWhole) {
  const Image size = {3, 37, 1, 11, 13};
  std::mt19937 random(7);
  for (const std::size_t item : {1, 2, 3, 4, 8, 16}) {
    for (const auto& [from, to] : {std::pair{Format::nc1hwc0, Format::nchw}, std::pair{Format::nchw, Format::nc1hwc0},
                                   std::pair{Format::nchw, Format::nhwc}, std::pair{Format::nc1hwc0, Format::nhwc},
                                   std::pair{Format::nhwc, Format::fractal_z}}) {
      const LogicalShape real{Format::nchw, {size.n, size.c, size.h, size.w}};
      const Shape shape = from == Format::nc1hwc0 ? Shape{3, 3, 11, 13, 16}
                          : from == Format::nhwc  ? Shape{3, 11, 13, 37}
                                                  : real.shape;
      const auto plan = plan_reformat({from, shape}, to, real);
      ASSERT_TRUE(plan) << plan.error().message;
      std::vector<std::byte> source(product(shape) * item);
      for (std::byte& byte : source) byte = static_cast<std::byte>(random());
      // Element by element, at the places to which the same plan moves 1, 2, 3, …
      const Array moved = applied(*plan, counting(product(shape)));
      std::vector<std::byte> expected(moved.size() * item), whole(expected.size()), parts(expected.size());
      for (std::size_t i = 0; i < moved.size(); ++i) {
        if (moved[i] != 0) std::memcpy(&expected[i * item], &source[(moved[i] - 1) * item], item);
      }
      plan->copy(source.data(), whole.data(), item, 2);
      EXPECT_EQ(whole, expected) << name_of(from) << " to " << name_of(to) << ", items of " << item;
      for (std::int64_t first = 0; first < plan->elements();) {
        const std::int64_t last = std::min<std::int64_t>(plan->elements(), first + 1 + random() % 999);
        plan->copy_part(source.data(), parts.data() + first * item, item, first, last);
        first = last;
      }
      EXPECT_EQ(parts, expected) << name_of(from) << " to " << name_of(to) << ", items of " << item;
    }
  }
}

TEST(Reformat, RefusesWhatDoesNotFit) {
  EXPECT_EQ(plan_reformat({Format::nd, {2, 3}}, Format::nchw).error().code, ErrorCode::unsupported);
  EXPECT_EQ(plan_reformat({Format::nc1hwc0, {1, 2, 3}}, Format::nchw).error().code, ErrorCode::invalid_argument);
  EXPECT_FALSE(plan_reformat({Format::fractal_z, {9, 1, 16, 16}}, Format::nchw));
  EXPECT_FALSE(
      plan_reformat({Format::fractal_z, {9, 1, 16, 16}}, Format::nchw, LogicalShape{Format::nchw, {16, 16, 2, 2}}));
  EXPECT_FALSE(
      plan_reformat({Format::nc1hwc0, {1, 1, 1, 1, 16}}, Format::nchw, LogicalShape{Format::nchw, {1, 17, 1, 1}}));
  EXPECT_FALSE(plan_reformat({Format::nchw, {-1, 1, 1, 1}}, Format::nhwc));
  EXPECT_FALSE(plan_reformat({Format::nchw, {1LL << 59, 1, 1, 1}}, Format::fractal_z));
  EXPECT_FALSE(plan_reformat({Format::nchw, {7, 1, 1, 1}, 2}, Format::fractal_z));
  EXPECT_FALSE(plan_reformat({Format::nchw, {2, 5, 1, 1}}, Format::fractal_z_c04));
}

TEST(Reformat, HostileShapesAreRefusedBeforeMemoryIsAskedFor) {
  constexpr std::int64_t kHuge = 1LL << 50;
  EXPECT_FALSE(plan_reformat({Format::fractal_z, {kHuge, 1, 16, 16}, 2}, Format::nchw,
                             LogicalShape{Format::nchw, {kHuge, kHuge, 1, 1}}));
  EXPECT_FALSE(plan_reformat({Format::nchw, {1 << 30, 1, 1, 1}, 1 << 30}, Format::fractal_z));
  EXPECT_FALSE(plan_reformat({Format::nc1hwc0, {1, 1 << 22, 1, 1, 3}}, Format::nc1hwc0_c04));
  EXPECT_FALSE(
      plan_reformat({Format::fractal_z, {18, 2, 16, 16}}, Format::nchw, LogicalShape{Format::nchw, {20, 30, 0, 3}}));
  EXPECT_FALSE(
      plan_reformat({Format::nc1hwc0, {1, 0, 1, 1, 0}}, Format::nchw, LogicalShape{Format::nchw, {1, 1, 1, 1}}));
}

TEST(Reformat, EmptyShapesWhoseStridesOverflowAreRefused) {
  const Shape huge = {9, 0, 0, 1LL << 40, 1LL << 40};
  EXPECT_FALSE(plan_reformat({Format::nchw, huge}, Format::nd));
  EXPECT_FALSE(plan_reformat({Format::nd, huge}, Format::nd, find_order({Format::nd, huge}, huge)));
  EXPECT_FALSE(plan_crop(huge, huge));
}

TEST(Reformat, BlocksOfNoElementAreNotRead) {
  const StoredShape stored{Format::c1hwc0, {35, 2, 2, 0}};
  for (const Format to : {Format::nchw, Format::fractal_z, Format::fractal_nz, Format::nd}) {
    const auto plan = plan_reformat(stored, to, find_order(stored, Shape{4194303}));
    EXPECT_TRUE(!plan || plan->elements() == 0) << name_of(to);
  }
  EXPECT_FALSE(plan_reformat(stored, Format::nchw));
}

TEST(Reformat, EmptyTensorsStayEmpty) {
  const auto plan = plan_reformat({Format::nchw, {2, 0, 3, 1}}, Format::nhwc);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->shape(), (Shape{2, 3, 1, 0}));
  EXPECT_EQ(plan->elements(), 0);
  plan->copy(nullptr, nullptr, 4);
}

// --- the order of a real shape ---------------------------------------------------------------------------------------

std::optional<Format> order_of(const StoredShape& stored, const Shape& original, std::optional<Format> hint = {}) {
  const auto found = find_order(stored, original, hint);
  return found ? std::optional(found->order) : std::nullopt;
}

TEST(FindOrder, OfABlockedTensor) {
  const StoredShape stored{Format::nc1hwc0, {2, 2, 3, 4, 16}};
  EXPECT_EQ(order_of(stored, {2, 20, 3, 4}), Format::nchw);
  EXPECT_EQ(order_of(stored, {2, 3, 4, 20}), Format::nhwc);
  EXPECT_EQ(order_of(stored, {3, 4, 20, 2}), Format::hwcn);
  EXPECT_EQ(order_of(stored, {20, 3, 4, 2}), Format::chwn);
  EXPECT_EQ(order_of(stored, {2, 16, 3, 4}), std::nullopt);  // would leave a block empty
  EXPECT_EQ(order_of(stored, {2, 33, 3, 4}), std::nullopt);
  EXPECT_EQ(order_of({Format::fractal_z, {9, 2, 16, 16}}, {3, 3, 5, 20}), Format::hwcn);
  EXPECT_EQ(order_of({Format::ndc1hwc0, {1, 2, 1, 3, 4, 16}}, {1, 2, 3, 4, 9}), Format::ndhwc);
}

TEST(FindOrder, AHintDecidesWhereSeveralFit) {
  const StoredShape stored{Format::nc1hwc0, {1, 1, 5, 5, 16}};
  EXPECT_EQ(order_of(stored, {1, 5, 5, 5}), Format::nchw);
  EXPECT_EQ(order_of(stored, {1, 5, 5, 5}, Format::nhwc), Format::nhwc);
  EXPECT_EQ(order_of(stored, {1, 5, 5, 7}, Format::nchw), Format::nhwc);
}

TEST(FindOrder, OfAPlainTensorIsAPermutation) {
  EXPECT_EQ(order_of({Format::nhwc, {1, 2, 2, 8}}, {1, 2, 2, 8}), Format::nhwc);
  EXPECT_EQ(order_of({Format::nhwc, {1, 2, 2, 8}}, {1, 8, 2, 2}), Format::nchw);
  EXPECT_EQ(order_of({Format::nhwc, {1, 2, 2, 8}}, {1, 4, 2, 2}), std::nullopt);
}

}  // namespace
}  // namespace sonde
