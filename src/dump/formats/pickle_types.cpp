#include "dump/formats/pickle_types.h"

#include <algorithm>
#include <iterator>

namespace sonde::pickle {
namespace {

struct StorageType {
  std::string_view name;
  DType dtype;
};
constexpr StorageType kStorages[] = {
    {"FloatStorage", DType::float32},
    {"DoubleStorage", DType::float64},
    {"HalfStorage", DType::float16},
    {"BFloat16Storage", DType::bfloat16},
    {"LongStorage", DType::int64},
    {"IntStorage", DType::int32},
    {"ShortStorage", DType::int16},
    {"CharStorage", DType::int8},
    {"ByteStorage", DType::uint8},
    {"BoolStorage", DType::bool8},
    {"ComplexFloatStorage", DType::complex64},
    {"ComplexDoubleStorage", DType::complex128},
    {"QInt8Storage", DType::qint8},
    {"QUInt8Storage", DType::quint8},
    {"QInt32Storage", DType::qint32},
};

}  // namespace

DType dtype_of_global(std::string_view global) {
  constexpr std::string_view kTorch = "torch\n";
  if (!global.starts_with(kTorch)) return DType::undefined;
  const std::string_view name = global.substr(kTorch.size());
  constexpr StorageType kShort[] = {{"float", DType::float32},   {"double", DType::float64}, {"half", DType::float16},
                                    {"long", DType::int64},      {"int", DType::int32},      {"short", DType::int16},
                                    {"cfloat", DType::complex64}};
  const auto found = std::ranges::find(kShort, name, &StorageType::name);
  return found != std::end(kShort) ? found->dtype : dtype_from_name(name);
}

bool is_untyped(std::string_view global) { return global.ends_with("\nUntypedStorage"); }

DType dtype_of_storage(std::string_view global) {
  const std::string_view name = global.substr(global.find('\n') + 1);
  const auto found = std::ranges::find(kStorages, name, &StorageType::name);
  return found == std::end(kStorages) || !global.starts_with("torch") ? DType::undefined : found->dtype;
}

}  // namespace sonde::pickle
