// Chooses the kernel and the walk: dense views block by block, on the host's pool if they are large; others in C order,
// run by run or through a small buffer.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "stats/float_environment.h"
#include "stats/host_pool.h"
#include "stats/kernels.h"
#include "stats/narrow_values.h"
#include "tensor/walk.h"

namespace sonde {
namespace {

// Passes one tensor to a kernel, in any number of pieces; the result does not depend on the cuts.
struct Summary {
  const Kernel& kernel;
  DType dtype;
  std::size_t item_bytes = info(dtype).item_bytes;
  Moments moments = {};

  void add(const std::byte* data, std::size_t elements);
  void add_within_block(const std::byte* data, std::size_t elements);
};

void Summary::add_within_block(const std::byte* data, std::size_t elements) {
  const auto type = static_cast<std::size_t>(dtype);
  const auto take = [&](AddElements kernel_add, std::size_t wanted) {
    const std::size_t added = kernel_add(moments, data, wanted);
    moments.count += added;
    data += added * item_bytes;
    elements -= added;
  };
  // A piece that starts inside a set of lanes, or a group, is first advanced to the next one.
  const std::size_t set = is_grouped(dtype) ? kGroupElements : kLanes;
  const std::size_t misplaced = (set - moments.count % set) % set;
  if (misplaced != 0) take(scalar_kernel().add[type], std::min(misplaced, elements));
  if (elements >= set) take(kernel.add[type], elements);
  if (elements != 0) take(scalar_kernel().add[type], elements);
}

void Summary::add(const std::byte* data, std::size_t elements) {
  while (elements > 0) {
    const std::size_t count = std::min(kBlock - moments.count % kBlock, elements);
    add_within_block(data, count);
    if (moments.count % kBlock == 0) finish_block(moments);
    data += count * item_bytes;
    elements -= count;
  }
}

// Shorter runs than this are collected in a buffer: a kernel call costs about as much as copying so many elements.
constexpr std::int64_t kMinRun = 256;
constexpr std::size_t kBufferBytes = 8192;  // on the stack of a host thread

void add_gathered(Summary& summary, const TensorView& view) {
  alignas(64) std::byte buffer[kBufferBytes];
  Cursor cursor(view);
  while (const std::size_t count = cursor.read(buffer, kBufferBytes / summary.item_bytes)) {
    summary.add(buffer, count);
  }
}

// Fetches the bytes, or as many of them as a kernel does not fetch itself. Any address is allowed.
void prefetch(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < std::min(bytes, kPrefetchAhead); at += kLine) {
    __builtin_prefetch(data + at, 0, 2);
  }
}

void add_runs(Summary& summary, const Walk& walk) {
  const auto item_bytes = static_cast<std::int64_t>(walk.item_bytes);
  const std::byte* run = walk.data;
  std::int64_t index[Walk::kMaxRank] = {};
  const auto next_run = [&] {
    for (std::size_t i = walk.rank - 1; i-- > 0;) {
      run += walk.stride[i] * item_bytes;
      if (++index[i] < walk.size[i]) return true;
      run -= walk.stride[i] * walk.size[i] * item_bytes;
      index[i] = 0;
    }
    return false;
  };
  const auto run_elements = static_cast<std::size_t>(walk.inner_run());
  do {
    // The hardware's prefetch is wrong at the end of a run, and does not cross pages.
    prefetch(run + walk.stride[walk.rank - 2] * item_bytes, run_elements * summary.item_bytes);
    summary.add(run, run_elements);
  } while (next_run());
}

// Elements that lie one after another, read in whole blocks.
struct DenseBlocks {
  const Kernel& kernel;
  DType dtype;
  const std::byte* data;
  std::size_t elements;
  std::byte* copy;  // gets the bytes of each block once it is read; null: they are not copied
  std::size_t item_bytes = info(dtype).item_bytes;

  std::size_t count() const { return (elements + kBlock - 1) / kBlock; }
  Moments read(std::size_t first, std::size_t last, BlockSums* sums) const;
  void read_group(std::size_t first, std::size_t last, Moments& total) const;
};

// Reads blocks [first, last); `sums` gets the sums of each. The last block comes first: the operator that wrote the
// tensor has left its end in the cache, and reading from the beginning would push it out.
Moments DenseBlocks::read(std::size_t first, std::size_t last, BlockSums* sums) const {
  const DefaultFloatEnvironment environment;
  Summary summary{kernel, dtype};
  std::uint64_t read = 0;
  for (std::size_t block = last; block-- > first;) {
    const std::byte* from = data + block * kBlock * item_bytes;
    const std::size_t size = std::min(kBlock, elements - block * kBlock);
    if (block > first) prefetch(from - kBlock * item_bytes, kBlock * item_bytes);
    summary.moments.count = 0;  // the block begins with lane 0
    summary.add_within_block(from, size);
    sums[block - first] = take_block(summary.moments);
    read += size;
    if (copy != nullptr) std::memcpy(copy + block * kBlock * item_bytes, from, size * item_bytes);
  }
  summary.moments.count = read;
  return summary.moments;
}

// So many blocks have their sums on the stack.
constexpr std::size_t kGroup = 512;

// Reads a group of blocks in pieces, and adds it to the total. The additions have the order of the blocks, so that the
// number of pieces changes no bit.
void DenseBlocks::read_group(std::size_t first, std::size_t last, Moments& total) const {
  BlockSums sums[kGroup];
  const std::uint32_t pieces = host_pool_pieces((last - first) * kBlock * item_bytes);
  if (pieces == 1) {
    add_counts(total, read(first, last, sums));
  } else {
    std::array<Moments, kMostPoolPieces> found;
    run_on_host_pool(pieces, [&](std::uint32_t piece) {
      const std::size_t begin = first + (last - first) * piece / pieces;
      const std::size_t end = first + (last - first) * (piece + 1) / pieces;
      found[piece] = read(begin, end, sums + (begin - first));
    });
    for (std::uint32_t piece = 0; piece < pieces; ++piece) add_counts(total, found[piece]);
  }
  for (std::size_t block = first; block < last; ++block) add_sums(total, sums[block - first]);
}

void read_dense(Summary& summary, const std::byte* data, std::size_t elements, std::byte* copy) {
  const DenseBlocks blocks{
      .kernel = summary.kernel, .dtype = summary.dtype, .data = data, .elements = elements, .copy = copy};
  for (std::size_t first = 0; first < blocks.count(); first += kGroup) {
    blocks.read_group(first, std::min(first + kGroup, blocks.count()), summary.moments);
  }
}

void add_view(Summary& summary, const TensorView& view) {
  if (view.is_dense()) {
    const auto elements = static_cast<std::size_t>(view.elements());
    if (elements <= kBlock) return summary.add(view.data, elements);
    return read_dense(summary, view.data, elements, nullptr);
  }
  const Walk walk(view);
  if (walk.inner_run() >= kMinRun) {
    add_runs(summary, walk);
  } else {
    add_gathered(summary, view);
  }
}

// The statistics of the negated elements.
Statistics negated(Statistics of) {
  std::swap(of.positive_count, of.negative_count);
  std::swap(of.positive_inf_count, of.negative_inf_count);
  if (of.finite_count() == 0) return of;
  of.max = -std::exchange(of.min, -of.max);
  of.sum = of.sum == 0 ? 0 : -of.sum;
  return of;
}

bool can_summarize(const TensorView& view) { return info(view.dtype).has_statistics && view.elements() > 0; }

// Copies the view in C order and adds each piece as soon as it is copied.
void copy_and_add(Summary& summary, const TensorView& view, std::byte* out) {
  if (view.is_c_contiguous()) return read_dense(summary, view.data, static_cast<std::size_t>(view.elements()), out);
  Cursor cursor(view);
  while (const std::size_t count = cursor.read(out, kBlock)) {
    summary.add(out, count);
    out += count * summary.item_bytes;
  }
}

}  // namespace

const Kernel& chosen_kernel() {
  static const Kernel& chosen = []() -> const Kernel& {
    const char* name = std::getenv("SONDE_KERNEL");
    const Kernel* forced = name != nullptr ? find_kernel(kernels(), name) : nullptr;
    return forced != nullptr ? *forced : kernels().front();
  }();
  return chosen;
}

std::string kernel_complaint() {
  const char* name = std::getenv("SONDE_KERNEL");
  if (name == nullptr || *name == '\0' || find_kernel(kernels(), name) != nullptr) return "";
  std::string known;
  for (const Kernel& kernel : kernels()) known += (known.empty() ? "" : ", ") + std::string(kernel.name);
  return "SONDE_KERNEL=" + std::string(name) + " names no kernel that runs here (" + known + "); " +
         std::string(kernel_name()) + " is used";
}

std::string_view kernel_name() { return chosen_kernel().name; }

Statistics summarize_with(const Kernel& kernel, const TensorView& view) {
  if (!can_summarize(view)) return {};
  const DefaultFloatEnvironment environment;
  Summary summary{kernel, view.dtype};
  add_view(summary, view);
  const Statistics found = finish(summary.moments);
  return view.negative ? negated(found) : found;
}

Statistics summarize(const TensorView& view) { return summarize_with(chosen_kernel(), view); }

Statistics summarize_and_copy(const TensorView& view, std::byte* out) {
  // Elements that are read in one order and written in another are read twice.
  if (!can_summarize(view) || view.negative || (view.is_dense() && !view.is_c_contiguous())) {
    copy_c_order(view, out);
    return summarize(view);
  }
  const DefaultFloatEnvironment environment;
  Summary summary{chosen_kernel(), view.dtype};
  copy_and_add(summary, view, out);
  return finish(summary.moments);
}

}  // namespace sonde
