#include "record/writer/brief_ops.h"

#include <algorithm>
#include <span>
#include <utility>

namespace sonde {
namespace {

constexpr std::size_t kUsualTensors = 3, kUsualDims = 2;

bool is_brief(const TensorRecord& tensor, std::uint64_t timestamp_us) {
  return tensor.timestamp_us == timestamp_us && !tensor.has_statistics && tensor.bytes == nullptr &&
         tensor.late == nullptr && tensor.hashes == nullptr && tensor.md5.empty() && tensor.sha1.empty() &&
         tensor.bytes_read == 0 && tensor.format == Format::default_format;
}

}  // namespace

bool BriefOps::can_hold(const Record& record) {
  return record.kind == RecordKind::op && !record.completes && !record.overflowed && !record.undecided &&
         record.repeats == kNoSequence && std::ranges::all_of(record.tensors, [&](const TensorRecord& tensor) {
           return is_brief(tensor, record.timestamp_us);
         });
}

BriefOps::BriefOps(StepId step) : step_(step) {
  ops_.reserve(kMost);
  tensors_.reserve(kMost * kUsualTensors);
  dims_.reserve(kMost * kUsualTensors * kUsualDims);
}

bool BriefOps::add(const Record& record) {
  if (record.step != step_ || ops_.size() == kMost) return false;
  BriefOp& op = ops_.emplace_back();
  op.named = record;
  op.selected = record.selected;
  op.tensors = static_cast<std::uint32_t>(record.tensors.size());
  for (const TensorRecord& tensor : record.tensors) add(tensor);
  return true;
}

void BriefOps::add(const TensorRecord& tensor) {
  const std::span<const std::int64_t> dims = tensor.shape.values();
  dims_.insert(dims_.end(), dims.begin(), dims.end());
  BriefTensor& brief = tensors_.emplace_back();
  brief.content = tensor.content;
  brief.source = tensor.source;
  brief.constant = tensor.constant;
  brief.skipped = tensor.skipped;
  brief.slot = tensor.slot;
  brief.source_slot = tensor.source_slot;
  brief.parameter = tensor.parameter;
  brief.placement = tensor.placement;
  brief.dims = static_cast<std::uint32_t>(dims.size());
  brief.dtype = tensor.dtype;
  brief.is_input = tensor.is_input;
  brief.wanted = tensor.wanted;
  brief.has_shape = tensor.has_shape;
}

Record BriefOps::expanded(const BriefOp& op, Place& at, std::vector<TensorRecord>&& tensors) const {
  Record record;
  static_cast<NamedRecord&>(record) = op.named;
  record.selected = op.selected;
  record.tensors = std::move(tensors);
  for (std::uint32_t i = 0; i < op.tensors; ++i) {
    record.tensors.push_back(expanded(tensors_[at.tensor++], at));
    record.tensors.back().timestamp_us = record.timestamp_us;
  }
  return record;
}

TensorRecord BriefOps::expanded(const BriefTensor& brief, Place& at) const {
  TensorRecord tensor;
  tensor.is_input = brief.is_input;
  tensor.wanted = brief.wanted;
  tensor.slot = brief.slot;
  tensor.dtype = brief.dtype;
  tensor.has_shape = brief.has_shape;
  tensor.shape = Dims(std::span(dims_).subspan(at.dim, brief.dims));
  tensor.content = brief.content;
  tensor.source = brief.source;
  tensor.source_slot = brief.source_slot;
  tensor.constant = brief.constant;
  tensor.parameter = brief.parameter;
  tensor.placement = brief.placement;
  tensor.skipped = brief.skipped;
  at.dim += brief.dims;
  return tensor;
}

}  // namespace sonde
