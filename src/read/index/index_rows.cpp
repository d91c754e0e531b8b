#include "read/index/index_rows.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "read/index/index_schema.h"

namespace sonde {
namespace {

// The numbers in a text, whatever separates them.
template <typename Number>
std::vector<Number> numbers_in(std::string_view text) {
  std::vector<Number> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    Number number{};
    const auto [next, error] = std::from_chars(at, end, number);
    if (next == at) {
      ++at;
      continue;
    }
    if (error == std::errc()) numbers.push_back(number);
    at = next;
  }
  return numbers;
}

double value_in(const Statement& row, int column) {
  return row.is_null(column) ? std::numeric_limits<double>::quiet_NaN() : row.real(column);
}

}  // namespace

KnownStatistics statistics_in(const Statement& row, int first, std::uint32_t flags) {
  KnownStatistics s;
  std::uint32_t bit = 0;
  for (std::optional<double>* value : {&s.max, &s.min, &s.avg, &s.l2norm}) {
    const bool is_negative_zero = (flags & (kFirstNegativeZero << bit)) != 0;
    if ((flags & (kFirstKnown << bit)) != 0) {
      *value = is_negative_zero ? -0.0 : value_in(row, first + static_cast<int>(bit));
    }
    ++bit;
  }
  int column = first + 4;
  for (std::optional<std::uint64_t>* count : {&s.count, &s.nan_count, &s.positive_inf_count, &s.negative_inf_count,
                                              &s.positive_count, &s.negative_count, &s.zero_count}) {
    if (!row.is_null(column)) *count = row.number(column);
    ++column;
  }
  return s;
}

Status IndexRows::prepare() {
  const std::pair<Statement*, const char*> all[] = {
      {&text_, "SELECT text FROM texts WHERE id=?"},
      {&name_, "SELECT op_name, op_type FROM op_names WHERE id=?"},
      {&trace_, "SELECT lines FROM traces WHERE id=?"},
      {&attribute_, "SELECT name, kind, integers, reals, text FROM attributes WHERE id=? ORDER BY position"},
      {&ops_,
       "SELECT id, name_id, phase, flags, sequence, timestamp_us, thread, scope, parent, source_file, source_line,"
       " function, trace, attributes FROM ops WHERE id>=? AND id<? ORDER BY id"},
      {&tensors_,
       "SELECT op_id, is_input, slot, dtype, shape, max, min, avg, l2norm, count, nan_count, positive_inf_count,"
       " negative_inf_count, positive_count, negative_count, zero_count, md5, sha1, parameter, key, skipped, directory,"
       " stem, file_end, content, source, source_slot, constant, timestamp_us, flags"
       " FROM tensors WHERE op_id>=? AND op_id<? ORDER BY op_id, position"},
      {&names_of_ops_, "SELECT id, name_id FROM ops WHERE id>=? AND id<? ORDER BY id"},
      {&outputs_,
       "SELECT op_id, position, slot, dtype, max, min, l2norm, CASE WHEN l2norm IS NULL THEN flags END"
       " FROM tensors WHERE op_id>=? AND op_id<? AND NOT is_input ORDER BY op_id, position"}};
  for (const auto& [statement, sql] : all) {
    Result<Statement> prepared = database_.prepare(sql);
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return {};
}

void IndexRows::read_ops(std::int64_t first, std::int64_t end, std::vector<CatalogOp>& ops) {
  const std::size_t before = ops.size();
  std::vector<std::int64_t> ids;
  ops_.set(0, first);
  ops_.set(1, end);
  while (ops_.next()) {
    ids.push_back(ops_.integer(0));
    ops.push_back(op_of(ops_));
  }
  ops_.reset();
  tensors_.set(0, first);
  tensors_.set(1, end);
  std::size_t at = 0;
  while (tensors_.next()) {
    const std::int64_t id = tensors_.integer(0);
    while (at < ids.size() && ids[at] < id) ++at;
    if (at < ids.size() && ids[at] == id) ops[before + at].tensors.push_back(tensor_of(tensors_));
  }
  tensors_.reset();
}

void IndexRows::each_output(std::int64_t first, std::int64_t end, const std::function<void(const OutputSize&)>& take) {
  std::vector<std::pair<std::int64_t, std::int64_t>> names;  // of the ops, by their ids
  names_of_ops_.set(0, first);
  names_of_ops_.set(1, end);
  while (names_of_ops_.next()) names.emplace_back(names_of_ops_.integer(0), names_of_ops_.integer(1));
  names_of_ops_.reset();
  outputs_.set(0, first);
  outputs_.set(1, end);
  std::size_t at = 0;
  const auto value = [this](int column) {
    return outputs_.is_null(column) ? std::nullopt : std::optional(outputs_.real(column));
  };
  while (outputs_.next()) {
    const std::int64_t id = outputs_.integer(0);
    while (at < names.size() && names[at].first < id) ++at;
    if (at == names.size() || names[at].first != id) continue;
    if (!outputs_.is_null(7) && (outputs_.number(7) & kHasStatistics) == 0) continue;
    if (outputs_.is_null(3) || !is_floating(dtype_of(outputs_.text(3)))) continue;
    take({.op_name = name_of(names[at].second).first,
          .place = at,
          .position = outputs_.number(1),
          .slot = static_cast<std::uint32_t>(outputs_.number(2)),
          .max = value(4),
          .min = value(5),
          .l2norm = value(6)});
  }
  outputs_.reset();
}

Status IndexRows::check() const {
  for (const Statement* statement :
       {&text_, &name_, &trace_, &attribute_, &ops_, &tensors_, &names_of_ops_, &outputs_}) {
    if (statement->failed()) return database_.error("cannot read it");
  }
  return {};
}

CatalogOp IndexRows::op_of(const Statement& row) {
  const auto flags = static_cast<std::uint32_t>(row.integer(3));
  CatalogOp op;
  const auto& [op_name, op_type] = name_of(row.integer(1));
  op.op_name = op_name;
  op.op_type = op_type;
  op.is_parameter = (flags & kIsParameter) != 0;
  op.failed = (flags & kHasFailed) != 0;
  op.is_module = (flags & kIsModule) != 0;
  op.phase = static_cast<Phase>(number_in(kPhases, row.text(2)));
  op.sequence = row.number(4);
  op.timestamp_us = row.number(5);
  op.thread = static_cast<std::uint16_t>(row.integer(6));
  op.scope = text_in(row, 7);
  op.parent = text_in(row, 8);
  op.source_file = text_in(row, 9);
  op.line = static_cast<std::uint32_t>(row.integer(10));
  op.function = text_in(row, 11);
  if (!row.is_null(12)) op.trace = trace_of(row.integer(12));
  if (!row.is_null(13)) op.attributes = attributes_of(row.integer(13));
  return op;
}

CatalogTensor IndexRows::tensor_of(const Statement& row) {
  const auto flags = static_cast<std::uint32_t>(row.integer(29));
  CatalogTensor tensor;
  tensor.is_input = row.integer(1) != 0;
  tensor.slot = static_cast<std::uint32_t>(row.integer(2));
  if (!row.is_null(3)) tensor.dtype = dtype_of(row.text(3));
  tensor.has_shape = (flags & kHasShape) != 0;
  if (tensor.has_shape) tensor.shape = numbers_in<std::int64_t>(row.text(4));
  if ((flags & kHasStatistics) != 0) tensor.statistics = statistics_in(row, 5, flags);
  tensor.md5 = kept_text(row, 16);
  tensor.sha1 = kept_text(row, 17);
  tensor.parameter = text_in(row, 18);
  tensor.key = text_in(row, 19);
  tensor.skipped = text_in(row, 20);
  if (!row.is_null(21)) {
    std::string& file = kept_->files.emplace_back(text_in(row, 21));
    file.append(text_in(row, 22)).append(row.text(23));
    tensor.file = file;
  }
  tensor.content = row.number(24);
  if (!row.is_null(25)) tensor.source = row.number(25);
  tensor.source_slot = static_cast<std::uint32_t>(row.integer(26));
  if ((flags & kHasConstant) != 0) {
    tensor.constant = (flags & kConstantIsNegativeZero) != 0 ? -0.0 : value_in(row, 27);
  }
  tensor.timestamp_us = row.number(28);
  tensor.wanted = (flags & kIsWanted) != 0;
  tensor.source_is_likely = (flags & kSourceIsLikely) != 0;
  return tensor;
}

// --- data that is stored once --------------------------------------------------------------------------------------

std::string_view IndexRows::text_in(const Statement& row, int column) {
  return row.is_null(column) ? std::string_view() : text_of(row.integer(column));
}

std::string_view IndexRows::kept_text(const Statement& row, int column) {
  return row.is_null(column) ? std::string_view() : std::string_view(kept_->files.emplace_back(row.text(column)));
}

std::string_view IndexRows::text_of(std::int64_t id) {
  const auto [at, is_new] = texts_.try_emplace(id);
  if (!is_new) return at->second;
  text_.set(0, id);
  if (text_.next()) at->second = all_texts_.keep(text_.text(0));
  text_.reset();
  return at->second;
}

const std::pair<std::string_view, std::string_view>& IndexRows::name_of(std::int64_t id) {
  const auto [at, is_new] = names_.try_emplace(id);
  if (!is_new) return at->second;
  name_.set(0, id);
  if (name_.next()) at->second = {all_texts_.keep(name_.text(0)), all_texts_.keep(name_.text(1))};
  name_.reset();
  return at->second;
}

DType IndexRows::dtype_of(std::string_view name) {
  if (name != last_dtype_name_) {
    last_dtype_name_ = name;
    last_dtype_ = dtype_from_name(name);
  }
  return last_dtype_;
}

const std::vector<SourceLine>* IndexRows::trace_of(std::int64_t id) {
  const auto [at, is_new] = traces_.try_emplace(id, nullptr);
  if (!is_new) return at->second;
  trace_.set(0, id);
  if (trace_.next()) {
    const std::vector<std::int64_t> numbers = numbers_in<std::int64_t>(trace_.text(0));
    std::vector<SourceLine>& trace = kept_->traces.emplace_back();
    for (std::size_t i = 0; i + 6 <= numbers.size(); i += 6) {
      const auto number = [&](std::size_t part) { return static_cast<std::uint32_t>(numbers[i + part]); };
      trace.push_back({std::string(text_of(numbers[i])), std::string(text_of(numbers[i + 1])), number(2), number(3),
                       number(4), number(5)});
    }
    at->second = &trace;
  }
  trace_.reset();
  return at->second;
}

const std::vector<Attribute>* IndexRows::attributes_of(std::int64_t id) {
  const auto [at, is_new] = attribute_sets_.try_emplace(id, nullptr);
  if (!is_new) return at->second;
  std::vector<Attribute>& attributes = kept_->attributes.emplace_back();
  attribute_.set(0, id);
  while (attribute_.next()) {
    Attribute& attribute = attributes.emplace_back();
    attribute.name = attribute_.text(0);
    attribute.kind = static_cast<AttributeKind>(attribute_.integer(1));
    attribute.integers = numbers_in<std::int64_t>(attribute_.text(2));
    attribute.reals = numbers_in<double>(attribute_.text(3));
    attribute.text = attribute_.text(4);
  }
  attribute_.reset();
  at->second = &attributes;
  return at->second;
}

}  // namespace sonde
