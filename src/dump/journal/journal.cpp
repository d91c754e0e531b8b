#include "dump/journal/journal.h"

#include <xxhash.h>

#include <bit>
#include <string_view>

#include "dump/journal/journal_format.h"
#include "ground/base/shape.h"

namespace sonde {
namespace {

using namespace journal_format;

void put_u8(std::string& out, std::uint8_t value) { out.push_back(static_cast<char>(value)); }

void put_u32(std::string& out, std::uint32_t value) {
  char bytes[4];
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out.append(bytes, sizeof bytes);
}

void put_f64(std::string& out, double value) {
  const auto bits = std::bit_cast<std::uint64_t>(value);
  char bytes[8];
  for (int i = 0; i < 8; ++i) bytes[i] = static_cast<char>(bits >> (8 * i));
  out.append(bytes, sizeof bytes);
}

void put_varint(std::string& out, std::uint64_t value) {
  char bytes[10];
  std::size_t size = 0;
  for (; value >= 0x80; value >>= 7) bytes[size++] = static_cast<char>(value | 0x80);
  bytes[size++] = static_cast<char>(value);
  out.append(bytes, size);
}

// Small numbers of either sign stay small.
void put_signed(std::string& out, std::int64_t value) {
  put_varint(out, (static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
}

void put_text(std::string& out, std::string_view text) {
  put_varint(out, text.size());
  out.append(text);
}

void set_u32(std::string& out, std::size_t offset, std::uint32_t value) {
  for (std::size_t i = 0; i < 4; ++i) out[offset + i] = static_cast<char>(value >> (8 * i));
}

// Returns the start of the entry; finish() fills in its checksum and length.
std::size_t begin(std::string& out, Entry type) {
  const std::size_t start = out.size();
  out.append(kEntryBytes - 1, '\0');
  put_u8(out, static_cast<std::uint8_t>(type));
  return start;
}

// An entry that every reader would refuse is not written at all.
void finish(std::string& out, std::size_t start) {
  const std::size_t payload = out.size() - start - kEntryBytes;
  if (payload > kLongestPayload) {
    out.resize(start);
    return;
  }
  set_u32(out, start + 4, static_cast<std::uint32_t>(payload));
  set_u32(out, start, XXH32(out.data() + start + 4, out.size() - start - 4, 0));
}

void put_json(std::string& out, Entry type, std::string_view json) {
  const std::size_t start = begin(out, type);
  out.append(json);
  finish(out, start);
}

void put_statistics(std::string& out, const Statistics& statistics) {
  put_varint(out, statistics.count);
  for_each_count([&](std::uint64_t count) { put_varint(out, count); }, statistics);
  put_f64(out, statistics.max);
  put_f64(out, statistics.min);
  put_f64(out, statistics.sum);
  put_f64(out, statistics.sum_squares);
}

bool same_bits(double a, double b) { return std::bit_cast<std::uint64_t>(a) == std::bit_cast<std::uint64_t>(b); }

bool fits_f32(double value) { return same_bits(static_cast<double>(static_cast<float>(value)), value); }

// The number of elements below zero follows from the others; it does for every tensor that was read.
bool can_be_compact(const Statistics& s) {
  return s.nan_count + s.positive_count + s.zero_count + s.negative_count == s.count && !s.first_is_nan;
}

std::uint8_t flags_of(const Statistics& s, std::span<const std::int64_t> shape) {
  std::uint8_t flags = 0;
  for_each_flagged_count(s, [&](std::uint8_t flag, std::uint64_t count) { flags |= count != 0 ? flag : 0; });
  if (fits_f32(s.max) && fits_f32(s.min)) flags |= kFloatLimits;
  const bool one = same_bits(s.max, s.min) && same_bits(s.max, s.sum) && same_bits(s.max * s.max, s.sum_squares);
  if (one) flags |= kOneNumber;
  if (element_count(shape) == s.count) flags |= kCountOfShape;
  return flags;
}

void put_limit(std::string& out, double value, bool is_float) {
  if (is_float) {
    put_u32(out, std::bit_cast<std::uint32_t>(static_cast<float>(value)));
  } else {
    put_f64(out, value);
  }
}

void put_compact(std::string& out, const Statistics& s, std::span<const std::int64_t> shape) {
  const std::uint8_t flags = flags_of(s, shape);
  put_u8(out, flags);
  if ((flags & kCountOfShape) == 0) put_varint(out, s.count);
  for_each_flagged_count(s, [&](std::uint8_t, std::uint64_t count) {
    if (count != 0) put_varint(out, count);
  });
  put_varint(out, s.positive_count);
  put_limit(out, s.max, (flags & kFloatLimits) != 0);
  if ((flags & kOneNumber) != 0) return;
  put_limit(out, s.min, (flags & kFloatLimits) != 0);
  put_f64(out, s.sum);
  put_f64(out, s.sum_squares);
}

std::uint64_t flags_of(const TensorRecord& tensor, const RecordMeta& record) {
  std::uint64_t flags = 0;
  if (tensor.is_input) flags |= kIsInput;
  if (tensor.wanted) flags |= kWanted;
  if (tensor.content != 0) flags |= kHasContent;
  if (tensor.source != kNoSequence) flags |= kHasSource;
  if (tensor.source < record.sequence) flags |= kNearSource;
  if (tensor.parameter != 0) flags |= kHasName;
  if (tensor.timestamp_us != 0) flags |= tensor.timestamp_us == record.timestamp_us ? kTimeOfRecord : kHasTimestamp;
  if (tensor.has_statistics) flags |= kHasStatistics;
  if (tensor.has_statistics && can_be_compact(tensor.statistics)) flags |= kCompactStatistics;
  if (tensor.skipped != nullptr) flags |= kSkipped;
  if (!tensor.md5.empty()) flags |= kHasMd5;
  if (!tensor.sha1.empty()) flags |= kHasSha1;
  if (tensor.constant) flags |= kIsConstant;
  if (tensor.placement != 0) flags |= kHasPlacement;
  return flags;
}

void put_tensor(std::string& out, const TensorRecord& tensor, const RecordMeta& record) {
  const std::uint64_t flags = flags_of(tensor, record);
  put_varint(out, flags);
  put_varint(out, tensor.slot);
  put_u8(out, static_cast<std::uint8_t>(tensor.dtype));
  put_varint(out, tensor.shape.size());
  for (const std::int64_t size : tensor.shape.values()) {
    put_varint(out, static_cast<std::uint64_t>(size));
  }
  if (flags & kHasContent) put_varint(out, tensor.content);
  if (flags & kHasSource) {
    put_varint(out, (flags & kNearSource) != 0 ? record.sequence - tensor.source : tensor.source);
    put_varint(out, tensor.source_slot);
  }
  if (flags & kHasName) put_varint(out, tensor.parameter);
  if (flags & kHasTimestamp) put_varint(out, tensor.timestamp_us);
  if (flags & kCompactStatistics) {
    put_compact(out, tensor.statistics, tensor.shape.values());
  } else if (flags & kHasStatistics) {
    put_statistics(out, tensor.statistics);
  }
  if (flags & kSkipped) put_text(out, tensor.skipped);
  if (flags & kHasMd5) put_text(out, tensor.md5);
  if (flags & kHasSha1) put_text(out, tensor.sha1);
  if (flags & kIsConstant) put_f64(out, *tensor.constant);
  if (flags & kHasPlacement) put_varint(out, tensor.placement);
}

void put_attribute(std::string& out, const Attribute& attribute) {
  put_text(out, attribute.name);
  put_u8(out, static_cast<std::uint8_t>(attribute.kind));
  put_text(out, attribute.text);
  put_varint(out, attribute.integers.size());
  for (const std::int64_t value : attribute.integers) put_signed(out, value);
  put_varint(out, attribute.reals.size());
  for (const double value : attribute.reals) put_f64(out, value);
}

// Optional: all fields except the file and line, which older readers of version 1 know.
void put_columns(std::string& out, const SourceLine& line) {
  put_varint(out, line.column);
  put_varint(out, line.end_line);
  put_varint(out, line.end_column);
}

}  // namespace

void JournalWriter::run(const std::string& json) {
  const std::size_t start = buffer_.size();
  buffer_.append(kMagic);
  put_u32(buffer_, kVersion);
  put_u32(buffer_, XXH32(buffer_.data() + start, kHeaderBytes - 4, 0));
  put_json(buffer_, Entry::run, json);
}

void JournalWriter::site(const Site& site) {
  const std::size_t start = begin(buffer_, Entry::site);
  put_varint(buffer_, site.id);
  put_u8(buffer_, static_cast<std::uint8_t>(site.phase));
  put_text(buffer_, site.op_type);
  put_text(buffer_, site.scope);
  put_text(buffer_, site.forward_op_type);
  put_varint(buffer_, site.forward_site);
  const SourceLine line = site.trace.empty() ? SourceLine() : site.trace.front();
  put_text(buffer_, line.file);
  put_varint(buffer_, line.line);
  put_text(buffer_, line.function);
  put_columns(buffer_, line);
  put_varint(buffer_, site.trace.empty() ? 0 : site.trace.size() - 1);
  for (std::size_t i = 1; i < site.trace.size(); ++i) {
    put_text(buffer_, site.trace[i].file);
    put_varint(buffer_, site.trace[i].line);
    put_text(buffer_, site.trace[i].function);
    put_columns(buffer_, site.trace[i]);
  }
  finish(buffer_, start);
}

void JournalWriter::op_name(const OpName& name) {
  const std::size_t start = begin(buffer_, Entry::op_name);
  put_varint(buffer_, name.id);
  put_text(buffer_, name.op_type);
  put_text(buffer_, name.op_name);
  finish(buffer_, start);
}

void JournalWriter::attributes(const Attributes& attributes) {
  const std::size_t start = begin(buffer_, Entry::attributes);
  put_varint(buffer_, attributes.id);
  put_varint(buffer_, attributes.values.size());
  for (const Attribute& attribute : attributes.values) put_attribute(buffer_, attribute);
  finish(buffer_, start);
}

void JournalWriter::record(const Record& record) {
  put_record(record, record.op != nullptr ? record.op->id : 0, "", record.tensors);
}

void JournalWriter::note(const std::string& text) {
  RecordMeta meta;
  meta.kind = RecordKind::note;
  meta.sequence = kNoSequence;
  put_record(meta, 0, text, {});
}

void JournalWriter::put_record(const RecordMeta& meta, std::uint32_t op, const std::string& note,
                               std::span<const TensorRecord> tensors) {
  const std::size_t start = begin(buffer_, Entry::record);
  put_u8(buffer_, static_cast<std::uint8_t>(meta.kind));
  put_u8(buffer_, static_cast<std::uint8_t>((meta.failed ? kFailed : 0) | (meta.completes ? kCompletes : 0)));
  put_varint(buffer_, meta.sequence);
  put_varint(buffer_, meta.step.graph);
  put_varint(buffer_, meta.step.number);
  put_varint(buffer_, op);
  put_varint(buffer_, meta.site);
  put_varint(buffer_, meta.thread);
  put_varint(buffer_, meta.timestamp_us);
  put_text(buffer_, note);
  put_varint(buffer_, tensors.size());
  for (const TensorRecord& tensor : tensors) put_tensor(buffer_, tensor, meta);
  put_varint(buffer_, meta.attributes);
  if (meta.call_number != 0) put_varint(buffer_, meta.call_number);
  finish(buffer_, start);
}

void JournalWriter::file(std::uint64_t sequence, bool is_input, std::uint32_t slot, const std::string& file) {
  const std::size_t start = begin(buffer_, Entry::file);
  put_varint(buffer_, sequence);
  put_u8(buffer_, is_input ? 1 : 0);
  put_varint(buffer_, slot);
  put_text(buffer_, file);
  finish(buffer_, start);
}

void JournalWriter::end(const std::string& json) { put_json(buffer_, Entry::end, json); }

}  // namespace sonde
