// Chooses the kernel, and reads the elements in memory order: block by block, on the host's pool if they are many; run by
// run, or through a small buffer if the runs are short.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>

#include "ground/stats/float_environment.h"
#include "ground/stats/host_pool.h"
#include "ground/stats/kernels.h"
#include "ground/stats/narrow_values.h"
#include "ground/tensor/walk.h"

namespace sonde {
namespace {

// Passes one tensor to a kernel, in any number of pieces; the result does not depend on the cuts.
struct Summary {
  const Kernel& kernel;
  DType dtype;
  std::size_t item_bytes = info(dtype).item_bytes;
  Moments moments = {};

  // The elements must not reach into the next block.
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

// Shorter runs than this are collected in a buffer: a kernel call costs about as much as copying so many elements.
constexpr std::int64_t kMinRun = 256;
constexpr std::size_t kBufferBytes = 8192;  // on the stack of a host thread

// Fetches the bytes, or as many of them as a kernel does not fetch itself. Any address is allowed.
void prefetch(const std::byte* data, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < std::min(bytes, kPrefetchAhead); at += kLine) {
    __builtin_prefetch(data + at, 0, 2);
  }
}

// The runs of a walk, from any element on.
class Runs {
 public:
  explicit Runs(const Walk& walk) : walk_(walk), run_(walk.inner_run()) {}

  // Adds `count` elements from `first` on.
  void add(Summary& summary, std::int64_t first, std::int64_t count);

 private:
  std::int64_t item_bytes() const { return static_cast<std::int64_t>(walk_.item_bytes); }
  void seek(std::int64_t run_number);
  void next();

  const Walk& walk_;
  const std::int64_t run_;  // elements
  const std::byte* at_ = nullptr;
  std::int64_t index_[Walk::kMaxRank];
};

void Runs::seek(std::int64_t run_number) {
  at_ = walk_.data;
  for (std::size_t i = walk_.rank - 1; i-- > 0;) {
    index_[i] = run_number % walk_.size[i];
    run_number /= walk_.size[i];
    at_ += index_[i] * walk_.stride[i] * item_bytes();
  }
}

void Runs::next() {
  for (std::size_t i = walk_.rank - 1; i-- > 0;) {
    at_ += walk_.stride[i] * item_bytes();
    if (++index_[i] < walk_.size[i]) return;
    at_ -= walk_.stride[i] * walk_.size[i] * item_bytes();
    index_[i] = 0;
  }
}

void Runs::add(Summary& summary, std::int64_t first, std::int64_t count) {
  seek(first / run_);
  std::int64_t begin = first % run_;
  while (count > 0) {
    // The hardware's prefetch is wrong at the end of a run, and does not cross pages.
    prefetch(at_ + walk_.stride[walk_.rank - 2] * item_bytes(), static_cast<std::size_t>(run_ * item_bytes()));
    const std::int64_t size = std::min(run_ - begin, count);
    summary.add_within_block(at_ + begin * item_bytes(), static_cast<std::size_t>(size));
    count -= size;
    begin = 0;
    next();
  }
}

// The elements of a walk, read in whole blocks.
struct Blocks {
  const Kernel& kernel;
  DType dtype;
  const Walk& walk;
  std::byte* copy = nullptr;  // gets the elements in the order of the walk, while they are in the cache
  std::size_t elements = static_cast<std::size_t>(walk.elements());

  std::size_t count() const { return (elements + kBlock - 1) / kBlock; }
  const std::byte* at(std::size_t block) const { return walk.data + block * kBlock * walk.item_bytes; }  // of one run
  void add(Summary& summary, std::size_t block) const;
  Moments read(std::size_t first, std::size_t last, BlockSums* sums) const;
  void read_group(std::size_t first, std::size_t last, Moments& total) const;
};

void Blocks::add(Summary& summary, std::size_t block) const {
  const std::size_t first = block * kBlock, size = std::min(kBlock, elements - first), item_bytes = walk.item_bytes;
  if (walk.is_one_run()) {
    const std::byte* from = at(block);
    summary.add_within_block(from, size);
    if (copy != nullptr) std::memcpy(copy + first * item_bytes, from, size * item_bytes);
  } else if (copy != nullptr) {
    Cursor cursor(walk);
    cursor.seek(static_cast<std::int64_t>(first));
    cursor.read(copy + first * item_bytes, size);
    summary.add_within_block(copy + first * item_bytes, size);
  } else if (walk.inner_run() >= kMinRun) {
    Runs(walk).add(summary, static_cast<std::int64_t>(first), static_cast<std::int64_t>(size));
  } else {
    alignas(64) std::byte buffer[kBufferBytes];
    Cursor cursor(walk);
    cursor.seek(static_cast<std::int64_t>(first));
    for (std::size_t left = size; left > 0;) {
      const std::size_t read = cursor.read(buffer, std::min(left, kBufferBytes / item_bytes));
      summary.add_within_block(buffer, read);
      left -= read;
    }
  }
}

// So many bytes are surely in the cache of a core that has just written them.
constexpr std::size_t kTailBytes = 512 << 10;

// Reads blocks [first, last); `sums` gets the sums of each. The last ones come first: the operator that wrote the tensor
// has left its end in the cache, and reading from the beginning would push it out. The others come in their order,
// as prefetching expects.
Moments Blocks::read(std::size_t first, std::size_t last, BlockSums* sums) const {
  const DefaultFloatEnvironment environment;
  Summary summary{kernel, dtype};
  const std::size_t blocks = last - first;
  const std::size_t tail = std::min(blocks, kTailBytes / (kBlock * walk.item_bytes));
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::size_t block = first + (i + blocks - tail) % blocks;
    summary.moments.count = 0;  // the block begins with lane 0
    if (i + 1 == tail && walk.is_one_run()) prefetch(at(first), kBlock * walk.item_bytes);
    add(summary, block);
    sums[block - first] = take_block(summary.moments);
  }
  summary.moments.count = std::min(last * kBlock, elements) - first * kBlock;
  return summary.moments;
}

// So many blocks have their sums on the stack.
constexpr std::size_t kGroup = 512;

// Reads a group of blocks in pieces, and adds it to the total. The additions have the order of the blocks, so that the
// number of pieces changes no bit.
void Blocks::read_group(std::size_t first, std::size_t last, Moments& total) const {
  BlockSums sums[kGroup];
  const std::uint32_t pieces = host_pool_pieces((last - first) * kBlock * walk.item_bytes);
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

void add_blocks(Summary& summary, const Blocks& blocks) {
  if (blocks.elements < kBlock) return blocks.add(summary, 0);
  for (std::size_t first = 0; first < blocks.count(); first += kGroup) {
    blocks.read_group(first, std::min(first + kGroup, blocks.count()), summary.moments);
  }
}

bool can_summarize(const TensorView& view) { return info(view.dtype).has_statistics && view.elements() > 0; }

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
  const Walk walk(view, WalkOrder::memory);
  add_blocks(summary, {.kernel = kernel, .dtype = view.dtype, .walk = walk});
  const Statistics found = finish(summary.moments);
  return view.negative ? negated(found) : found;
}

Statistics summarize(const TensorView& view) { return summarize_with(chosen_kernel(), view); }

Statistics summarize_and_copy(const TensorView& view, std::byte* out) {
  const Walk walk(view);
  // Elements that are read in one order and written in another are read twice.
  if (!can_summarize(view) || view.negative || !(walk == Walk(view, WalkOrder::memory))) {
    copy_c_order(view, out);
    return summarize(view);
  }
  const DefaultFloatEnvironment environment;
  Summary summary{chosen_kernel(), view.dtype};
  add_blocks(summary, {.kernel = summary.kernel, .dtype = view.dtype, .walk = walk, .copy = out});
  return finish(summary.moments);
}

}  // namespace sonde
