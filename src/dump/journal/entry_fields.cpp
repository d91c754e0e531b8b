#include "dump/journal/entry_fields.h"

#include <utility>
#include <vector>

#include "dump/journal/journal_format.h"
#include "ground/base/shape.h"

namespace sonde {
namespace {

using namespace journal_format;

Dims take_shape(Fields& fields) {
  const std::uint64_t rank = fields.varint();
  if (rank > fields.left()) {  // a size takes a byte at least
    fields.fail();
    return {};
  }
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(rank));
  for (std::int64_t& size : sizes) size = fields.number<std::int64_t>();
  return Dims(sizes);
}

Statistics take_statistics(Fields& fields) {
  Statistics statistics;
  statistics.count = fields.varint();
  for_each_count([&](std::uint64_t& count) { count = fields.varint(); }, statistics);
  statistics.max = fields.f64();
  statistics.min = fields.f64();
  statistics.sum = fields.f64();
  statistics.sum_squares = fields.f64();
  return statistics;
}

Statistics take_compact(Fields& fields, std::span<const std::int64_t> shape) {
  Statistics statistics;
  const std::uint8_t flags = fields.u8();
  if ((flags & ~kKnownStatisticsFlags) != 0) fields.fail();
  const auto limit = [&] { return (flags & kFloatLimits) != 0 ? static_cast<double>(fields.f32()) : fields.f64(); };
  statistics.count = (flags & kCountOfShape) != 0 ? element_count(shape) : fields.varint();
  for_each_flagged_count(statistics, [&](std::uint8_t flag, std::uint64_t& count) {
    if ((flags & flag) != 0) count = fields.varint();
  });
  statistics.positive_count = fields.varint();
  statistics.negative_count =
      statistics.count - statistics.nan_count - statistics.zero_count - statistics.positive_count;
  if (statistics.negative_count > statistics.count) fields.fail();
  statistics.max = limit();
  const bool one = (flags & kOneNumber) != 0;
  statistics.min = one ? statistics.max : limit();
  statistics.sum = one ? statistics.max : fields.f64();
  statistics.sum_squares = one ? statistics.max * statistics.max : fields.f64();
  return statistics;
}

JournalTensor take_tensor(Fields& fields, const RecordMeta& record) {
  JournalTensor tensor;
  const std::uint64_t flags = fields.varint();
  if ((flags & ~kKnownTensorFlags) != 0) fields.fail();  // fields of unknown size would follow
  tensor.is_input = (flags & kIsInput) != 0;
  tensor.wanted = (flags & kWanted) != 0;
  tensor.has_statistics = (flags & kHasStatistics) != 0;
  tensor.slot = fields.number<std::uint32_t>();
  tensor.dtype = static_cast<DType>(fields.u8());
  tensor.set_shape(take_shape(fields));
  if (flags & kHasContent) tensor.content = fields.varint();
  if (flags & kHasSource) {
    tensor.source = fields.varint();
    if ((flags & kNearSource) != 0) {
      if (tensor.source > record.sequence) fields.fail();
      tensor.source = record.sequence - tensor.source;
    }
    tensor.source_slot = fields.number<std::uint32_t>();
  }
  if (flags & kHasName) tensor.parameter = fields.number<std::uint32_t>();
  if (flags & kHasTimestamp) tensor.timestamp_us = fields.varint();
  if (flags & kTimeOfRecord) tensor.timestamp_us = record.timestamp_us;
  if (flags & kHasStatistics) {
    tensor.statistics =
        (flags & kCompactStatistics) != 0 ? take_compact(fields, tensor.shape.values()) : take_statistics(fields);
  }
  if (flags & kSkipped) tensor.skipped = fields.text();
  if (flags & kHasMd5) tensor.md5 = fields.text();
  if (flags & kHasSha1) tensor.sha1 = fields.text();
  if (flags & kIsConstant) tensor.constant = fields.f64();
  if (flags & kHasPlacement) tensor.placement = fields.number<std::uint32_t>();
  return tensor;
}

SourceLine take_line(Fields& fields) {
  SourceLine line;
  line.file = fields.text();
  line.line = fields.number<std::uint32_t>();
  line.function = fields.text();
  return line;
}

void take_columns(Fields& fields, SourceLine& line) {
  line.column = fields.number<std::uint32_t>();
  line.end_line = fields.number<std::uint32_t>();
  line.end_column = fields.number<std::uint32_t>();
}

Attribute take_attribute(Fields& fields) {
  Attribute attribute;
  attribute.name = fields.text();
  const std::uint8_t kind = fields.u8();
  if (kind > static_cast<std::uint8_t>(AttributeKind::reals)) fields.fail();
  attribute.kind = static_cast<AttributeKind>(kind);
  attribute.text = fields.text();
  const std::uint64_t integers = fields.varint();
  for (std::uint64_t i = 0; i < integers && fields.good(); ++i) attribute.integers.push_back(fields.signed_number());
  const std::uint64_t reals = fields.varint();
  for (std::uint64_t i = 0; i < reals && fields.good(); ++i) attribute.reals.push_back(fields.f64());
  const bool one_integer = attribute.kind == AttributeKind::boolean || attribute.kind == AttributeKind::integer;
  if (one_integer && attribute.integers.size() != 1) fields.fail();
  if (attribute.kind == AttributeKind::real && attribute.reals.size() != 1) fields.fail();
  return attribute;
}

}  // namespace

JournalRecord take_record(Fields& fields) {
  JournalRecord record;
  const std::uint8_t kind = fields.u8();
  if (kind > static_cast<std::uint8_t>(RecordKind::note)) fields.fail();
  record.kind = static_cast<RecordKind>(kind);
  const std::uint8_t flags = fields.u8();
  record.failed = (flags & kFailed) != 0;
  record.completes = (flags & kCompletes) != 0;
  record.sequence = fields.varint();
  record.step.graph = fields.number<std::uint32_t>();
  record.step.number = fields.varint();
  record.op = fields.number<std::uint32_t>();
  record.site = fields.number<std::uint32_t>();
  record.thread = fields.number<std::uint16_t>();
  record.timestamp_us = fields.varint();
  record.note = fields.text();
  const std::uint64_t tensors = fields.varint();
  if (tensors > fields.left() / kSmallestTensor) {
    fields.fail();
    return record;
  }
  record.tensors.reserve(static_cast<std::size_t>(tensors));
  for (std::uint64_t i = 0; i < tensors && fields.good(); ++i) {
    record.tensors.push_back(take_tensor(fields, record));
  }
  if (fields.left() > 0) record.attributes = fields.number<std::uint32_t>();
  if (fields.left() > 0) record.call_number = fields.varint();
  return record;
}

Site take_site(Fields& fields) {
  Site site;
  site.id = fields.number<std::uint32_t>();
  const std::uint8_t phase = fields.u8();
  if (phase > static_cast<std::uint8_t>(Phase::recompute)) fields.fail();
  site.phase = static_cast<Phase>(phase);
  site.op_type = fields.text();
  site.scope = fields.text();
  site.forward_op_type = fields.text();
  site.forward_site = fields.number<std::uint32_t>();
  SourceLine line = take_line(fields);
  if (fields.left() > 0) take_columns(fields, line);
  if (line != SourceLine()) site.trace.push_back(std::move(line));
  const std::uint64_t callers = fields.left() > 0 ? fields.varint() : 0;
  for (std::uint64_t i = 0; i < callers && fields.good(); ++i) {
    SourceLine& caller = site.trace.emplace_back(take_line(fields));
    take_columns(fields, caller);
  }
  return site;
}

OpName take_op_name(Fields& fields) {
  OpName name;
  name.id = fields.number<std::uint32_t>();
  name.op_type = fields.text();
  name.op_name = fields.text();
  return name;
}

Attributes take_attributes(Fields& fields) {
  Attributes attributes;
  attributes.id = fields.number<std::uint32_t>();
  const std::uint64_t count = fields.varint();
  for (std::uint64_t i = 0; i < count && fields.good(); ++i) attributes.values.push_back(take_attribute(fields));
  return attributes;
}

JournalFile take_file(Fields& fields) {
  JournalFile entry;
  entry.sequence = fields.varint();
  entry.is_input = fields.u8() != 0;
  entry.slot = fields.number<std::uint32_t>();
  entry.file = fields.text();
  return entry;
}

}  // namespace sonde
