#include "device/emulated_grid.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

namespace {

std::vector<unsigned int> threads_in_order;
unsigned int running_block;

using std::fma;
unsigned int __float_as_uint(float value) { return std::bit_cast<unsigned int>(value); }
float __uint_as_float(unsigned int bits) { return std::bit_cast<float>(bits); }
long long __double_as_longlong(double value) { return std::bit_cast<long long>(value); }
double __longlong_as_double(long long bits) { return std::bit_cast<double>(bits); }

}  // namespace

#define SONDE_EMULATED
#define SONDE_KERNEL void
#define SONDE_FUNCTION inline
#define SONDE_OF_CLASS
#define SONDE_OWN_FUNCTION inline
#define SONDE_SHARED static  // holds what the block before left, as on a device
#define SONDE_THREAD_BLOCK running_block
#define SONDE_EACH_THREAD(thread) for (const unsigned int thread : threads_in_order)
#define SONDE_OF_EACH_THREAD(Type, name) Type name[kThreads]
#define SONDE_OWN(name, thread) name[thread]
#include "ground/device/statistics.cu"

namespace sonde::device {
namespace {

std::vector<unsigned int> in_order(std::uint32_t count, ThreadOrder order, std::mt19937& random) {
  std::vector<unsigned int> numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0U);
  if (order == ThreadOrder::descending) std::reverse(numbers.begin(), numbers.end());
  if (order == ThreadOrder::shuffled) std::shuffle(numbers.begin(), numbers.end(), random);
  return numbers;
}

}  // namespace

void run_grid(const Batch& batch, std::uint32_t blocks, Record* records, ThreadOrder order) {
  std::mt19937 random(blocks);
  for (const unsigned int block : in_order(blocks, order, random)) {
    threads_in_order = in_order(kThreads, order, random);
    running_block = block;
    sonde_statistics(batch, records);
  }
}

}  // namespace sonde::device
