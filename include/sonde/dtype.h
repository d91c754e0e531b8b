// Element types: one table of names, sizes and codes, used by the writer, the readers and the documentation.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sonde/export.h"

namespace sonde {

// The numbers are part of the C ABI (sonde.h) and of the journal: append, never renumber.
enum class DType : std::uint8_t {
  undefined = 0,
  bool8 = 1,
  int8 = 2,
  int16 = 3,
  int32 = 4,
  int64 = 5,
  uint8 = 6,
  uint16 = 7,
  uint32 = 8,
  uint64 = 9,
  float16 = 10,
  float32 = 11,
  float64 = 12,
  bfloat16 = 13,
  float8_e4m3fn = 14,
  float8_e5m2 = 15,
  float8_e4m3fnuz = 16,
  float8_e5m2fnuz = 17,
  float8_e8m0fnu = 18,
  complex32 = 19,
  complex64 = 20,
  complex128 = 21,
  qint8 = 22,  // quantized: the codes are recorded, not the dequantized values
  quint8 = 23,
  qint32 = 24,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;    // as in file names of MindSpore 2.7: `Float32`
  std::string_view lower;   // as in statistic.csv: `float32`
  std::string_view npy;     // descr of the file that is written: `<f4`; bfloat16 and fp8 are written as float32
  std::uint8_t item_bytes;  // bytes of one element in memory
  std::uint8_t file_bytes;  // bytes of one element in the npy file
  bool has_statistics;      // false for complex
};

SONDE_EXPORT const DTypeInfo& info(DType dtype);  // an unknown number gives the row of `undefined`
SONDE_EXPORT std::span<const DTypeInfo> all_dtypes();
SONDE_EXPORT bool is_floating(DType dtype);  // float16 to float64, bfloat16 and the 8-bit floats; not complex
SONDE_EXPORT bool is_complex(DType dtype);
SONDE_EXPORT DType dtype_from_name(std::string_view name);  // either spelling, any case; `undefined` when unknown

}  // namespace sonde
