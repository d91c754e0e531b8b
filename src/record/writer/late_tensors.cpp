#include "record/writer/late_tensors.h"

#include <memory>

#include "dump/journal/late_reading.h"
#include "record/writer/hasher.h"

namespace sonde {
namespace {

// One row of the elements: they are in C order already.
void summarize_bytes(const Plan& plan, const TensorView& view, LateReading& late) {
  late.statistics = summarize(view);
  late.has_statistics = true;
  if (!plan.sonde.acl_quirks || late.statistics.nan_count == 0) return;
  TensorView first = view;
  first.shape = {};
  first.strides = {};
  late.statistics.first_is_nan = summarize(first).nan_count > 0;
}

void hash_bytes(const Plan& plan, const TensorView& view, LateReading& late, Hasher* hasher) {
  if (!late.is_hashed && !plan.wants(Category::md5) && !plan.wants(Category::sha1)) return;
  if (hasher != nullptr && late.bytes->bytes >= Hasher::kLeastBytes) {
    late.hashes = hasher->add(BlockPool::share(late.bytes), info(late.dtype).item_bytes);
    return;
  }
  late.hashes = std::make_shared<HashTexts>();
  if (plan.makes_md5()) late.hashes->md5 = md5_hex(view);
  if (plan.wants(Category::sha1)) late.hashes->sha1 = sha1_hex(view);
  late.hashes->done = true;
}

void settle(const Plan& plan, LateReading& late, Hasher* hasher) {
  if (std::exchange(late.settled, true) || !late.bytes) return;
  const std::int64_t stride = 1;
  TensorView view;
  view.dtype = late.dtype;
  view.data = late.bytes->data;
  view.shape = {&late.elements, 1};
  view.strides = {&stride, 1};
  if (!late.has_statistics && info(late.dtype).has_statistics) summarize_bytes(plan, view, late);
  hash_bytes(plan, view, late, hasher);
  late.bytes.reset();
}

}  // namespace

void settle_late_tensors(const Plan& plan, Record& record, Hasher* hasher) {
  for (TensorRecord& tensor : record.tensors) {
    if (tensor.late == nullptr) continue;
    LateReading& late = *tensor.late;
    settle(plan, late, hasher);
    tensor.has_statistics = late.has_statistics && info(late.dtype).has_statistics;
    tensor.statistics = late.statistics;
    tensor.hashes = late.hashes;
    tensor.late.reset();
  }
}

}  // namespace sonde
