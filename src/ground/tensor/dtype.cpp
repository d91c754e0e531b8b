#include "sonde/dtype.h"

#include <array>

#include "ground/base/text.h"

namespace sonde {
namespace {

// Row i is DType i. `npy` and `file_bytes` differ from memory if NumPy has no such type: those types are widened.
constexpr std::array<DTypeInfo, 25> kTable = {{
    {DType::undefined, "Undefined", "undefined", "", 0, 0, false},
    {DType::bool8, "Bool", "bool", "|b1", 1, 1, true},
    {DType::int8, "Int8", "int8", "|i1", 1, 1, true},
    {DType::int16, "Int16", "int16", "<i2", 2, 2, true},
    {DType::int32, "Int32", "int32", "<i4", 4, 4, true},
    {DType::int64, "Int64", "int64", "<i8", 8, 8, true},
    {DType::uint8, "UInt8", "uint8", "|u1", 1, 1, true},
    {DType::uint16, "UInt16", "uint16", "<u2", 2, 2, true},
    {DType::uint32, "UInt32", "uint32", "<u4", 4, 4, true},
    {DType::uint64, "UInt64", "uint64", "<u8", 8, 8, true},
    {DType::float16, "Float16", "float16", "<f2", 2, 2, true},
    {DType::float32, "Float32", "float32", "<f4", 4, 4, true},
    {DType::float64, "Float64", "float64", "<f8", 8, 8, true},
    {DType::bfloat16, "BFloat16", "bfloat16", "<f4", 2, 4, true},
    {DType::float8_e4m3fn, "Float8E4M3FN", "float8_e4m3fn", "<f4", 1, 4, true},
    {DType::float8_e5m2, "Float8E5M2", "float8_e5m2", "<f4", 1, 4, true},
    {DType::float8_e4m3fnuz, "Float8E4M3FNUZ", "float8_e4m3fnuz", "<f4", 1, 4, true},
    {DType::float8_e5m2fnuz, "Float8E5M2FNUZ", "float8_e5m2fnuz", "<f4", 1, 4, true},
    {DType::float8_e8m0fnu, "Float8E8M0FNU", "float8_e8m0fnu", "<f4", 1, 4, true},
    {DType::complex32, "Complex32", "complex32", "<c8", 4, 8, false},
    {DType::complex64, "Complex64", "complex64", "<c8", 8, 8, false},
    {DType::complex128, "Complex128", "complex128", "<c16", 16, 16, false},
    {DType::qint8, "QInt8", "qint8", "|i1", 1, 1, true},
    {DType::quint8, "QUInt8", "quint8", "|u1", 1, 1, true},
    {DType::qint32, "QInt32", "qint32", "<i4", 4, 4, true},
}};

constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < kTable.size(); ++i) {
    if (static_cast<std::size_t>(kTable[i].dtype) != i) return false;
  }
  return true;
}
static_assert(rows_are_in_order());

}  // namespace

const DTypeInfo& info(DType dtype) {
  const auto row = static_cast<std::size_t>(dtype);
  return row < kTable.size() ? kTable[row] : kTable[0];
}

std::span<const DTypeInfo> all_dtypes() { return kTable; }

bool is_floating(DType dtype) {
  switch (dtype) {
    case DType::float16:
    case DType::bfloat16:
    case DType::float32:
    case DType::float64:
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
    case DType::float8_e4m3fnuz:
    case DType::float8_e5m2fnuz:
    case DType::float8_e8m0fnu:
      return true;
    default:
      return false;
  }
}

bool is_complex(DType dtype) {
  return dtype == DType::complex32 || dtype == DType::complex64 || dtype == DType::complex128;
}

DType dtype_from_name(std::string_view name) {
  for (const DTypeInfo& row : kTable) {
    if (same_ignoring_case(name, row.name) || same_ignoring_case(name, row.lower)) {
      return row.dtype;
    }
  }
  return DType::undefined;
}

}  // namespace sonde
