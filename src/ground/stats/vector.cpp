// The vector kernels, compiled once for each instruction set (Highway includes this file again for each) and listed.
#include <vector>

#include "ground/stats/kernels.h"
#include "ground/stats/narrow_values.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ground/stats/vector.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include "ground/stats/kernel_list.h"

#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
#include "ground/stats/vector_float-inl.h"
#include "ground/stats/vector_float8-inl.h"
#include "ground/stats/vector_integer-inl.h"
#include "ground/stats/vector_narrow-inl.h"
#endif

HWY_BEFORE_NAMESPACE();
namespace sonde {
namespace HWY_NAMESPACE {

// Highway's emulation of vectors is slower than the scalar kernel, so its table stays empty.
void fill_kernel([[maybe_unused]] Kernel& kernel) {
#if HWY_TARGET != HWY_EMU128 && HWY_TARGET != HWY_SCALAR
  const auto set = [&kernel](DType dtype, AddElements add) { kernel.add[static_cast<std::size_t>(dtype)] = add; };
  set(DType::bool8, add_bool);
  set(DType::int8, add_integer8<std::int8_t>);
  set(DType::int16, add_integer16<std::int16_t>);
  set(DType::int32, add_integer32<std::int32_t>);
  set(DType::int64, add_float64<LoadInt64>);
  set(DType::uint8, add_integer8<std::uint8_t>);
  set(DType::uint16, add_integer16<std::uint16_t>);
  set(DType::uint32, add_integer32<std::uint32_t>);
  set(DType::uint64, add_float64<LoadUInt64>);
  set(DType::float16, add_narrow<LoadFloat16, std::int16_t, float16_value>);
  set(DType::float32, add_float32<LoadFloat32>);
  set(DType::float64, add_float64<LoadFloat64>);
  set(DType::bfloat16, add_narrow<LoadBFloat16, std::int16_t, bfloat16_value>);
  set(DType::float8_e4m3fn, add_float8<LoadFloat8E4M3FN, float8_value<DType::float8_e4m3fn>>);
  set(DType::float8_e5m2, add_float8<LoadFloat8E5M2, float8_value<DType::float8_e5m2>>);
  set(DType::float8_e4m3fnuz, add_float8<LoadFloat8E4M3FNUZ, float8_value<DType::float8_e4m3fnuz>>);
  set(DType::float8_e5m2fnuz, add_float8<LoadFloat8E5M2FNUZ, float8_value<DType::float8_e5m2fnuz>>);
  set(DType::float8_e8m0fnu, add_exponents);
  set(DType::qint8, add_integer8<std::int8_t>);
  set(DType::quint8, add_integer8<std::uint8_t>);
  set(DType::qint32, add_integer32<std::int32_t>);
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace sonde
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace sonde {
std::span<const Kernel> kernels() {
  static const std::vector<Kernel> list = list_kernels(
      SONDE_FILLS(Kernel, fill_kernel), scalar_kernel(),
      [](const Kernel& kernel) { return kernel.add[static_cast<std::size_t>(DType::float32)] != nullptr; });
  return list;
}

}  // namespace sonde
#endif  // HWY_ONCE
