#include "face/server/arrow.h"

#include <flatbuffers/flatbuffers.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

#include "face/server/answer_table.h"

namespace sonde::server {
namespace {

static_assert(std::endian::native == std::endian::little, "Arrow's default");

// Numbers of Arrow's Schema.fbs and Message.fbs: the tables' fields count from 0.
enum TypeNumber : std::uint8_t { kInt = 2, kFloatingPoint = 3, kUtf8 = 5, kBool = 6 };
enum HeaderNumber : std::uint8_t { kSchema = 1, kDictionaryBatch = 2, kRecordBatch = 3 };
constexpr std::int16_t kVersion5 = 4;
constexpr std::int16_t kDouble = 2;

using Builder = flatbuffers::FlatBufferBuilder;
using Offset = flatbuffers::uoffset_t;

// One table of a flat buffer. Parts that it points to are made before it begins.
class FlatTable {
 public:
  explicit FlatTable(Builder& builder) : builder_(builder), start_(builder.StartTable()) {}
  template <typename Value>
  FlatTable& set(unsigned field, Value value) {
    builder_.AddElement<Value>(place_of(field), value);
    return *this;
  }
  FlatTable& point(unsigned field, Offset to) {
    builder_.AddOffset(place_of(field), flatbuffers::Offset<void>(to));
    return *this;
  }
  Offset end() { return builder_.EndTable(start_); }

 private:
  static flatbuffers::voffset_t place_of(unsigned field) {
    return flatbuffers::FieldIndexToOffset(static_cast<flatbuffers::voffset_t>(field));
  }
  Builder& builder_;
  Offset start_;
};

// A struct of two 64-bit numbers: FieldNode and Buffer.
struct Pair {
  std::int64_t first, second;
};

struct Body {
  std::string bytes;
  std::vector<Pair> nodes;    // rows and nulls of a column
  std::vector<Pair> buffers;  // place and size in `bytes`

  void add(const void* data, std::size_t size) {
    buffers.push_back({static_cast<std::int64_t>(bytes.size()), static_cast<std::int64_t>(size)});
    if (size > 0) bytes.append(static_cast<const char*>(data), size);
    bytes.resize((bytes.size() + 7) & ~std::size_t{7});
  }
};

std::string bits_of(std::size_t count, const std::function<bool(std::size_t)>& is_set) {
  std::string bits((count + 7) / 8, '\0');
  for (std::size_t i = 0; i < count; ++i) {
    if (is_set(i)) bits[i / 8] = static_cast<char>(bits[i / 8] | (1 << (i % 8)));
  }
  return bits;
}

template <typename Number>
void add_numbers(const ColumnNumbers& numbers, Body& body) {
  std::vector<Number> of_type(numbers.size());
  for (std::size_t i = 0; i < of_type.size(); ++i) of_type[i] = static_cast<Number>(numbers[i]);
  body.add(of_type.data(), of_type.size() * sizeof(Number));
}

// Twelve bytes a row and column, with room for what comes before it: so many bytes are never copied.
void make_room(const std::deque<AnswerColumn>& columns, Body& body) {
  std::size_t bytes = 1 << 16;
  for (const AnswerColumn& column : columns) {
    bytes += column.rows() * 12;
    if (column.type != ColumnType::text) {
      for (const std::string& text : column.texts) bytes += text.size();
    }
  }
  body.bytes.reserve(bytes);
}

void add_texts(const std::vector<std::string>& texts, Body& body) {
  std::vector<std::int32_t> ends = {0};
  std::string all;
  for (const std::string& text : texts) {
    all += text;
    ends.push_back(static_cast<std::int32_t>(all.size()));
  }
  body.add(ends.data(), ends.size() * sizeof(std::int32_t));
  body.add(all.data(), all.size());
}

void add_column(const AnswerColumn& column, Body& body) {
  const std::size_t rows = column.rows();
  std::int64_t nulls = 0;
  for (const bool is_known : column.known) nulls += is_known ? 0 : 1;
  body.nodes.push_back({static_cast<std::int64_t>(rows), nulls});
  const std::string known =
      nulls == 0 ? std::string() : bits_of(rows, [&](std::size_t i) { return bool(column.known[i]); });
  body.add(known.data(), known.size());
  switch (column.type) {
    case ColumnType::text:
      return add_numbers<std::int32_t>(column.numbers, body);
    case ColumnType::unique:
    case ColumnType::shape:
      return add_texts(column.texts, body);
    case ColumnType::boolean: {
      const std::string bits = bits_of(rows, [&](std::size_t i) { return column.numbers[i] != 0; });
      return body.add(bits.data(), bits.size());
    }
    case ColumnType::uint8:
      return add_numbers<std::uint8_t>(column.numbers, body);
    case ColumnType::uint32:
      return add_numbers<std::uint32_t>(column.numbers, body);
    case ColumnType::uint64:
      return add_numbers<std::uint64_t>(column.numbers, body);
    case ColumnType::float64:
      return body.add(column.reals.data(), column.reals.size() * sizeof(double));
  }
}

Offset integer_type(Builder& builder, std::int32_t bits, bool is_signed) {
  return FlatTable(builder).set<std::int32_t>(0, bits).set<std::uint8_t>(1, is_signed).end();
}

Offset type_of(Builder& builder, const AnswerColumn& column, TypeNumber& number) {
  number = kInt;
  switch (column.type) {
    case ColumnType::uint8:
      return integer_type(builder, 8, false);
    case ColumnType::uint32:
      return integer_type(builder, 32, false);
    case ColumnType::uint64:
      return integer_type(builder, 64, false);
    case ColumnType::float64:
      number = kFloatingPoint;
      return FlatTable(builder).set<std::int16_t>(0, kDouble).end();
    case ColumnType::boolean:
      number = kBool;
      return FlatTable(builder).end();
    default:
      number = kUtf8;
      return FlatTable(builder).end();
  }
}

Offset field_of(Builder& builder, const AnswerColumn& column, std::int64_t dictionary) {
  const Offset name = builder.CreateString(column.name).o;
  TypeNumber number = kInt;
  const Offset type = type_of(builder, column, number);
  Offset encoding = 0;
  if (column.type == ColumnType::text) {
    const Offset index = integer_type(builder, 32, true);
    encoding = FlatTable(builder).set<std::int64_t>(0, dictionary).point(1, index).end();
  }
  const Offset children = builder.CreateVector(std::vector<flatbuffers::Offset<void>>()).o;
  FlatTable field(builder);
  field.point(0, name).set<std::uint8_t>(1, column.nullable).set<std::uint8_t>(2, number).point(3, type);
  if (encoding != 0) field.point(4, encoding);
  return field.point(5, children).end();
}

Offset batch_of(Builder& builder, const Body& body, std::size_t rows) {
  const Offset nodes = builder.CreateVectorOfStructs(body.nodes).o;
  const Offset buffers = builder.CreateVectorOfStructs(body.buffers).o;
  return FlatTable(builder)
      .set<std::int64_t>(0, static_cast<std::int64_t>(rows))
      .point(1, nodes)
      .point(2, buffers)
      .end();
}

// All of a message but its body.
void add_message(Builder& builder, HeaderNumber number, Offset header, std::size_t body_bytes, std::string& out) {
  const Offset message = FlatTable(builder)
                             .set<std::int16_t>(0, kVersion5)
                             .set<std::uint8_t>(1, number)
                             .point(2, header)
                             .set<std::int64_t>(3, static_cast<std::int64_t>(body_bytes))
                             .end();
  builder.Finish(flatbuffers::Offset<void>(message));
  const std::size_t padded = (builder.GetSize() + 7) & ~std::size_t{7};
  const std::uint32_t begin[2] = {0xFFFFFFFFU, static_cast<std::uint32_t>(padded)};
  out.append(reinterpret_cast<const char*>(begin), sizeof begin);
  out.append(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  out.append(padded - builder.GetSize(), '\0');
}

}  // namespace

std::string arrow_stream(const std::deque<AnswerColumn>& columns) {
  std::string out;
  {
    Builder builder;
    std::vector<flatbuffers::Offset<void>> fields;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      fields.emplace_back(field_of(builder, columns[i], static_cast<std::int64_t>(i)));
    }
    const Offset list = builder.CreateVector(fields).o;
    add_message(builder, kSchema, FlatTable(builder).point(1, list).end(), 0, out);
  }
  for (std::size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].type != ColumnType::text) continue;
    Builder builder;
    Body body;
    body.nodes.push_back({static_cast<std::int64_t>(columns[i].texts.size()), 0});
    body.add(nullptr, 0);
    add_texts(columns[i].texts, body);
    const Offset data = batch_of(builder, body, columns[i].texts.size());
    const Offset batch = FlatTable(builder).set<std::int64_t>(0, static_cast<std::int64_t>(i)).point(1, data).end();
    add_message(builder, kDictionaryBatch, batch, body.bytes.size(), out);
    out += body.bytes;
  }
  Builder builder;
  Body body;
  make_room(columns, body);
  for (const AnswerColumn& column : columns) add_column(column, body);
  const Offset batch = batch_of(builder, body, columns.empty() ? 0 : columns.front().rows());
  add_message(builder, kRecordBatch, batch, body.bytes.size(), out);
  constexpr char kEnd[8] = {'\xFF', '\xFF', '\xFF', '\xFF', 0, 0, 0, 0};
  body.bytes.insert(0, out);
  body.bytes.append(kEnd, sizeof kEnd);
  return std::move(body.bytes);
}

}  // namespace sonde::server
