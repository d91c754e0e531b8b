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

// Of `tensors`, without texts.
struct OutputRow {
  std::int64_t op_id = 0;
  std::uint64_t position = 0;
  std::uint32_t slot = 0;
  std::optional<std::string_view> dtype;
  std::optional<double> max, min, l2norm;
  std::optional<std::uint32_t> flags;  // where there is no norm
};
constexpr auto kOutput = std::tuple(RowField{"op_id", &OutputRow::op_id}, RowField{"position", &OutputRow::position},
                                    RowField{"slot", &OutputRow::slot}, RowField{"dtype", &OutputRow::dtype},
                                    RowField{"max", &OutputRow::max}, RowField{"min", &OutputRow::min},
                                    RowField{"l2norm", &OutputRow::l2norm},
                                    RowField{"CASE WHEN l2norm IS NULL THEN flags END", &OutputRow::flags});

}  // namespace

std::string statistics_columns() {
  std::string text;
  for_each_statistic_member([&](std::string_view name, auto) { text.append(name).append(", "); });
  return text.append("tensors.flags");
}

std::optional<KnownStatistics> statistics_in(const Statement& statement, int first) {
  const auto flags = static_cast<std::uint32_t>(statement.integer(first + kStatisticsColumns - 1));
  if ((flags & kHasStatistics) == 0) return std::nullopt;
  KnownStatistics found;
  std::uint32_t known = kFirstKnown, negative_zero = kFirstNegativeZero;
  int column = first;
  for_each_statistic(found, [&]<typename Value>(std::string_view, std::optional<Value>& value) {
    const bool is_null = statement.is_null(column);
    if constexpr (std::is_floating_point_v<Value>) {
      if ((flags & known) != 0) {
        value = (flags & negative_zero) != 0 ? -0.0
                : is_null                    ? std::numeric_limits<double>::quiet_NaN()
                                             : statement.real(column);
      }
      known <<= 1U;
      negative_zero <<= 1U;
    } else if (!is_null) {
      value = statement.number(column);
    }
    ++column;
  });
  return found;
}

Status IndexRows::prepare() {
  const std::pair<Statement*, std::string> all[] = {
      {&text_, "SELECT text FROM texts WHERE id=?"},
      {&name_, "SELECT op_name, op_type FROM op_names WHERE id=?"},
      {&trace_, "SELECT lines FROM traces WHERE id=?"},
      {&attribute_, select_text<tables::Attributes>("WHERE id=? ORDER BY position")},
      {&ops_, select_text<tables::Ops>("WHERE id>=? AND id<? ORDER BY id")},
      {&tensors_, select_text<tables::Tensors>("WHERE op_id>=? AND op_id<? ORDER BY op_id, position")},
      {&names_of_ops_, "SELECT id, name_id FROM ops WHERE id>=? AND id<? ORDER BY id"},
      {&outputs_,
       select_text(kOutput, "FROM tensors WHERE op_id>=? AND op_id<? AND NOT is_input ORDER BY op_id, position")}};
  for (const auto& [statement, sql] : all) {
    Result<Statement> prepared = database_.prepare(sql.c_str());
    if (!prepared) return prepared.error();
    *statement = std::move(*prepared);
  }
  return {};
}

void IndexRows::read_ops(std::int64_t first, std::int64_t end, std::vector<CatalogOp>& ops) {
  const std::size_t before = ops.size();
  std::vector<std::uint64_t> ids;
  ops_.set(0, first);
  ops_.set(1, end);
  while (ops_.next()) {
    const auto row = row_of<tables::Ops>(ops_);
    ids.push_back(row.id);
    ops.push_back(op_of(row));
  }
  ops_.reset();
  tensors_.set(0, first);
  tensors_.set(1, end);
  std::size_t at = 0;
  while (tensors_.next()) {
    const auto row = row_of<tables::Tensors>(tensors_);
    while (at < ids.size() && ids[at] < row.op_id) ++at;
    if (at < ids.size() && ids[at] == row.op_id) ops[before + at].tensors.push_back(tensor_of(row));
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
  while (outputs_.next()) {
    const OutputRow row = row_of<OutputRow>(outputs_, kOutput);
    while (at < names.size() && names[at].first < row.op_id) ++at;
    if (at == names.size() || names[at].first != row.op_id) continue;
    if (row.flags && (*row.flags & kHasStatistics) == 0) continue;
    if (!row.dtype || !is_floating(dtype_of(*row.dtype))) continue;
    take({.op_name = name_of(names[at].second).first,
          .place = at,
          .position = row.position,
          .slot = row.slot,
          .max = row.max,
          .min = row.min,
          .l2norm = row.l2norm});
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

CatalogOp IndexRows::op_of(const tables::Ops& row) {
  CatalogOp op;
  const auto& [op_name, op_type] = name_of(static_cast<std::int64_t>(row.name_id));
  op.op_name = op_name;
  op.op_type = op_type;
  op.is_parameter = (row.flags & kIsParameter) != 0;
  op.failed = (row.flags & kHasFailed) != 0;
  op.is_module = (row.flags & kIsModule) != 0;
  op.phase = value_of_word<Phase>(row.phase);
  op.sequence = row.sequence;
  op.timestamp_us = row.timestamp_us;
  op.thread = static_cast<std::uint16_t>(row.thread);
  op.call_number = row.call_number.value_or(0);
  op.scope = text_of(row.scope);
  op.parent = text_of(row.parent);
  op.source_file = text_of(row.source_file);
  op.line = row.source_line;
  op.function = text_of(row.function);
  if (row.trace) op.trace = trace_of(static_cast<std::int64_t>(*row.trace));
  if (row.attributes) op.attributes = attributes_of(static_cast<std::int64_t>(*row.attributes));
  return op;
}

CatalogTensor IndexRows::tensor_of(const tables::Tensors& row) {
  CatalogTensor tensor;
  tensor.is_input = row.is_input;
  tensor.slot = row.slot;
  if (row.dtype) tensor.dtype = dtype_of(*row.dtype);
  tensor.has_shape = (row.flags & kHasShape) != 0;
  if (tensor.has_shape) tensor.shape = numbers_in<std::int64_t>(row.shape.value_or(""));
  tensor.statistics = row.statistics;
  tensor.md5 = kept_text(row.md5);
  tensor.sha1 = kept_text(row.sha1);
  tensor.parameter = text_of(row.parameter);
  tensor.key = text_of(row.key);
  tensor.placement = text_of(row.placement);
  tensor.skipped = text_of(row.skipped);
  if (row.directory) {
    std::string& file = kept_->files.emplace_back(text_of(row.directory));
    file.append(text_of(row.stem)).append(row.file_end.value_or(""));
    tensor.file = file;
  }
  tensor.content = row.content.value_or(0);
  if (row.source) tensor.source = *row.source;
  tensor.source_slot = row.source_slot.value_or(0);
  if ((row.flags & kHasConstant) != 0) {
    const double constant = row.constant.value_or(std::numeric_limits<double>::quiet_NaN());
    tensor.constant = (row.flags & kConstantIsNegativeZero) != 0 ? -0.0 : constant;
  }
  tensor.timestamp_us = row.timestamp_us;
  tensor.wanted = (row.flags & kIsWanted) != 0;
  tensor.source_is_likely = (row.flags & kSourceIsLikely) != 0;
  return tensor;
}

// --- data that is stored once --------------------------------------------------------------------------------------

std::string_view IndexRows::text_of(const std::optional<std::uint64_t>& id) {
  return id ? text_of(static_cast<std::int64_t>(*id)) : std::string_view();
}

std::string_view IndexRows::kept_text(const std::optional<std::string_view>& text) {
  return text ? std::string_view(kept_->files.emplace_back(*text)) : std::string_view();
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
    const auto row = row_of<tables::Attributes>(attribute_);
    attribute.name = row.name;
    attribute.kind = static_cast<AttributeKind>(row.kind);
    attribute.integers = numbers_in<std::int64_t>(row.integers);
    attribute.reals = numbers_in<double>(row.reals);
    attribute.text = row.text;
  }
  attribute_.reset();
  at->second = &attributes;
  return at->second;
}

}  // namespace sonde
