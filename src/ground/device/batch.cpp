#include "ground/device/batch.h"

#include <limits>
#include <optional>
#include <string>

#include "ground/stats/moments.h"
#include "ground/tensor/walk.h"

namespace sonde::device {
namespace {

static_assert(kBlockElements == kBlock && kLanes == 16 && kGroupElements == 256, "statistics.cu has the same numbers");

constexpr std::uint64_t kMostBlocks = std::numeric_limits<std::int32_t>::max();  // of a grid

std::optional<Element> element_of(DType dtype) {
  switch (dtype) {
    case DType::bool8:
      return Element::bool8;
    case DType::int8:
    case DType::qint8:
      return Element::int8;
    case DType::int16:
      return Element::int16;
    case DType::int32:
    case DType::qint32:
      return Element::int32;
    case DType::int64:
      return Element::int64;
    case DType::uint8:
    case DType::quint8:
      return Element::uint8;
    case DType::uint16:
      return Element::uint16;
    case DType::uint32:
      return Element::uint32;
    case DType::uint64:
      return Element::uint64;
    case DType::float16:
      return Element::float16;
    case DType::float32:
      return Element::float32;
    case DType::float64:
      return Element::float64;
    case DType::bfloat16:
      return Element::bfloat16;
    case DType::float8_e4m3fn:
      return Element::float8_e4m3fn;
    case DType::float8_e5m2:
      return Element::float8_e5m2;
    case DType::float8_e4m3fnuz:
      return Element::float8_e4m3fnuz;
    case DType::float8_e5m2fnuz:
      return Element::float8_e5m2fnuz;
    case DType::float8_e8m0fnu:
      return Element::float8_e8m0fnu;
    default:
      return std::nullopt;
  }
}

Error unreadable(const TensorView& view, std::string_view reason) {
  return {ErrorCode::unsupported, "cannot read a tensor of type " + std::string(info(view.dtype).lower) +
                                      " with the statistics kernel: " + std::string(reason)};
}

// A batch that is being filled.
class Filling {
 public:
  Filling() { batch_.count = 0; }

  bool is_empty() const { return batch_.count == 0; }
  bool has_room(const Walk& walk, std::uint64_t blocks) const {
    return batch_.count < Batch::kMostSources && dimensions_ + rank_of(walk) <= Batch::kMostDimensions &&
           blocks_ + blocks <= kMostBlocks;
  }
  void add(const Walk& walk, Element element, std::uint64_t blocks);
  Status finish(const Launch& launch, std::uint64_t first_record) const {
    return launch(batch_, static_cast<std::uint32_t>(blocks_), first_record);
  }
  std::uint64_t blocks() const { return blocks_; }

 private:
  static std::size_t rank_of(const Walk& walk) { return walk.is_one_run() ? 0 : walk.rank; }

  Batch batch_;  // the kernel reads the first `count` sources, and their dimensions
  std::size_t dimensions_ = 0;
  std::uint64_t blocks_ = 0;
};

void Filling::add(const Walk& walk, Element element, std::uint64_t blocks) {
  const std::size_t rank = rank_of(walk);
  Source& source = batch_.sources[batch_.count++];
  source.data = walk.data;
  source.elements = walk.elements();
  source.first_block = static_cast<std::uint32_t>(blocks_);
  source.first_dimension = static_cast<std::uint16_t>(dimensions_);
  source.rank = static_cast<std::uint8_t>(rank);
  source.element = element;
  for (std::size_t i = 0; i < rank; ++i) batch_.dimensions[dimensions_++] = {walk.size[i], walk.stride[i]};
  blocks_ += blocks;
}

}  // namespace

Result<std::uint64_t> count_records(const TensorView& view) {
  const auto elements = static_cast<std::uint64_t>(view.elements());
  if (!element_of(view.dtype)) return unreadable(view, "the type has no statistics");
  if (elements == 0) return std::uint64_t{0};
  if (reinterpret_cast<std::uintptr_t>(view.data) % info(view.dtype).item_bytes != 0) {
    return unreadable(view, "its address is not a multiple of the size of an element");
  }
  const std::uint64_t blocks = records_of(elements);
  if (view.data == nullptr || blocks > kMostBlocks) {
    return unreadable(view, view.data == nullptr ? "it has no memory" : "it has more than 2^44 elements");
  }
  return blocks;
}

Status launch_batches(std::span<const TensorView> views, const Launch& launch) {
  for (const TensorView& view : views) {
    if (const auto records = count_records(view); !records) return records.error();
  }
  Filling filling;
  std::uint64_t first_record = 0;
  for (const TensorView& view : views) {
    const std::uint64_t blocks = *count_records(view);
    if (blocks == 0) continue;
    const Walk walk(view, WalkOrder::memory);
    if (!filling.has_room(walk, blocks)) {
      if (Status status = filling.finish(launch, first_record); !status) return status;
      first_record += filling.blocks();
      filling = {};
    }
    filling.add(walk, *element_of(view.dtype), blocks);
  }
  return filling.is_empty() ? Status() : filling.finish(launch, first_record);
}

Statistics fold(std::span<const Record> records, std::uint64_t elements, bool negative) {
  if (elements == 0) return {};
  Moments total;
  for (const Record& record : records) {
    Moments block;
    block.max = record.max;
    block.min = record.min;
    block.nan = record.nan;
    block.positive_inf = record.positive_inf;
    block.negative_inf = record.negative_inf;
    block.positive = record.positive;
    block.negative = record.negative;
    add_counts(total, block);
    add_sums(total, {.sum = record.sum, .squares = record.squares});
  }
  total.count = elements;
  const Statistics found = sonde::finish(total);
  return negative ? negated(found) : found;
}

}  // namespace sonde::device
