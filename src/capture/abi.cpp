#include "capture/abi.h"

#include <fmt/format.h>

#include "graph/attribute.h"
#include "journal/record.h"
#include "sonde/dtype.h"
#include "sonde/tensor.h"

namespace sonde {
namespace {

constexpr const char* kCure = "install both from one version of Sonde";

// The numbers of sonde.h are the engine's own.
static_assert(SONDE_DTYPE_UNDEFINED == static_cast<int>(DType::undefined));
static_assert(SONDE_DTYPE_BOOL8 == static_cast<int>(DType::bool8));
static_assert(SONDE_DTYPE_INT8 == static_cast<int>(DType::int8));
static_assert(SONDE_DTYPE_INT16 == static_cast<int>(DType::int16));
static_assert(SONDE_DTYPE_INT32 == static_cast<int>(DType::int32));
static_assert(SONDE_DTYPE_INT64 == static_cast<int>(DType::int64));
static_assert(SONDE_DTYPE_UINT8 == static_cast<int>(DType::uint8));
static_assert(SONDE_DTYPE_UINT16 == static_cast<int>(DType::uint16));
static_assert(SONDE_DTYPE_UINT32 == static_cast<int>(DType::uint32));
static_assert(SONDE_DTYPE_UINT64 == static_cast<int>(DType::uint64));
static_assert(SONDE_DTYPE_FLOAT16 == static_cast<int>(DType::float16));
static_assert(SONDE_DTYPE_FLOAT32 == static_cast<int>(DType::float32));
static_assert(SONDE_DTYPE_FLOAT64 == static_cast<int>(DType::float64));
static_assert(SONDE_DTYPE_BFLOAT16 == static_cast<int>(DType::bfloat16));
static_assert(SONDE_DTYPE_FLOAT8_E4M3FN == static_cast<int>(DType::float8_e4m3fn));
static_assert(SONDE_DTYPE_FLOAT8_E5M2 == static_cast<int>(DType::float8_e5m2));
static_assert(SONDE_DTYPE_FLOAT8_E4M3FNUZ == static_cast<int>(DType::float8_e4m3fnuz));
static_assert(SONDE_DTYPE_FLOAT8_E5M2FNUZ == static_cast<int>(DType::float8_e5m2fnuz));
static_assert(SONDE_DTYPE_FLOAT8_E8M0FNU == static_cast<int>(DType::float8_e8m0fnu));
static_assert(SONDE_DTYPE_COMPLEX32 == static_cast<int>(DType::complex32));
static_assert(SONDE_DTYPE_COMPLEX64 == static_cast<int>(DType::complex64));
static_assert(SONDE_DTYPE_COMPLEX128 == static_cast<int>(DType::complex128));
static_assert(SONDE_DTYPE_QINT8 == static_cast<int>(DType::qint8));
static_assert(SONDE_DTYPE_QUINT8 == static_cast<int>(DType::quint8));
static_assert(SONDE_DTYPE_QINT32 == static_cast<int>(DType::qint32));
static_assert(SONDE_DEVICE_CPU == static_cast<int>(DeviceType::cpu));
static_assert(SONDE_DEVICE_CUDA == static_cast<int>(DeviceType::cuda));
static_assert(SONDE_DEVICE_OTHER == static_cast<int>(DeviceType::other));
static_assert(SONDE_PHASE_FORWARD == static_cast<int>(Phase::forward));
static_assert(SONDE_PHASE_BACKWARD == static_cast<int>(Phase::backward));
static_assert(SONDE_PHASE_OPTIMIZER == static_cast<int>(Phase::optimizer));
static_assert(SONDE_PHASE_OUTSIDE == static_cast<int>(Phase::outside));
static_assert(SONDE_PHASE_RECOMPUTE == static_cast<int>(Phase::recompute));
static_assert(SONDE_ATTRIBUTE_NONE == static_cast<int>(AttributeKind::none));
static_assert(SONDE_ATTRIBUTE_REALS == static_cast<int>(AttributeKind::reals));

}  // namespace

std::string too_short(const char* name, std::size_t found, std::size_t required) {
  return fmt::format(
      "the host's {} has {} bytes, and at least {} are needed: its adapter was not built for libsonde.so {}; {}", name,
      found, required, SONDE_VERSION, kCure);
}

std::string table_mismatch(std::uint32_t version, std::uint32_t table_size) {
  if (version != SONDE_API_VERSION) {
    return fmt::format("libsonde.so {} has version {} of the C ABI, and the adapter was built for version {}; {}",
                       SONDE_VERSION, SONDE_API_VERSION, version, kCure);
  }
  if (table_size > sizeof(struct sonde_api)) {
    return fmt::format(
        "libsonde.so {} is older than the adapter: its function table has {} bytes, and the adapter "
        "needs {}; {}",
        SONDE_VERSION, sizeof(struct sonde_api), table_size, kCure);
  }
  return {};
}

}  // namespace sonde
