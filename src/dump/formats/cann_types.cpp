#include "dump/formats/cann_types.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sonde {
namespace {

struct Row {
  std::string_view name;
  DType dtype;
};
constexpr DType kNone = DType::undefined;

// Row i has the number i. Of several rows with one type, the first is the number that is written.
constexpr std::array<Row, 43> kTable = {{
    {"UNDEFINED", kNone},
    {"FLOAT", DType::float32},
    {"FLOAT16", DType::float16},
    {"INT8", DType::int8},
    {"UINT8", DType::uint8},
    {"INT16", DType::int16},
    {"UINT16", DType::uint16},
    {"INT32", DType::int32},
    {"INT64", DType::int64},
    {"UINT32", DType::uint32},
    {"UINT64", DType::uint64},
    {"BOOL", DType::bool8},
    {"DOUBLE", DType::float64},
    {"STRING", kNone},
    {"DUAL_SUB_INT8", kNone},
    {"DUAL_SUB_UINT8", kNone},
    {"COMPLEX64", DType::complex64},
    {"COMPLEX128", DType::complex128},
    {"QINT8", DType::qint8},
    {"QINT16", kNone},
    {"QINT32", DType::qint32},
    {"QUINT8", DType::quint8},
    {"QUINT16", kNone},
    {"RESOURCE", DType::int64},  // a handle
    {"STRING_REF", kNone},
    {"DUAL", kNone},
    {"VARIANT", kNone},
    {"BF16", DType::bfloat16},
    {"INT4", kNone},
    {"UINT1", kNone},
    {"INT2", kNone},
    {"UINT2", kNone},
    {"COMPLEX32", DType::complex32},
    {"HIFLOAT8", kNone},
    {"FLOAT8_E5M2", DType::float8_e5m2},
    {"FLOAT8_E4M3FN", DType::float8_e4m3fn},
    {"FLOAT8_E8M0", DType::float8_e8m0fnu},
    {"FLOAT6_E3M2", kNone},
    {"FLOAT6_E2M3", kNone},
    {"FLOAT4_E2M1", kNone},
    {"FLOAT4_E1M2", kNone},
    {"HIFLOAT4", kNone},
    {"HIFLOAT4_SCALE", kNone},
}};

}  // namespace

std::int32_t cann_type(DType dtype) {
  const auto found = std::ranges::find(kTable, dtype, &Row::dtype);
  return found == kTable.end() ? kCannUndefined : static_cast<std::int32_t>(found - kTable.begin());
}

DType dtype_of_cann(std::int32_t number) {
  const auto row = static_cast<std::size_t>(number);
  return number >= 0 && row < kTable.size() ? kTable[row].dtype : kNone;
}

std::string cann_type_name(std::int32_t number) {
  const auto row = static_cast<std::size_t>(number);
  return number >= 0 && row < kTable.size() ? std::string(kTable[row].name) : "type " + std::to_string(number);
}

DType dtype_of_cann_name(std::string_view name) {
  if (name.starts_with("DT_")) name.remove_prefix(3);
  const auto found = std::ranges::find(kTable, name, &Row::name);
  return found == kTable.end() ? kNone : found->dtype;
}

}  // namespace sonde
