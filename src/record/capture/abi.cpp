#include "record/capture/abi.h"

#include <fmt/format.h>

#include "dump/journal/record.h"
#include "ground/model/attribute.h"
#include "record/capture/devices.h"
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

std::string string_of(const char* text) { return text != nullptr ? text : ""; }

SourceLine line_of(const sonde_source_line& in) {
  return {string_of(in.file), string_of(in.function), in.line, in.column, in.end_line, in.end_column};
}

void give_strides(HostTensor& tensor) {
  const std::size_t dims = tensor.view.shape.size();
  tensor.own_strides = std::make_unique<std::int64_t[]>(dims);
  c_order_strides(tensor.view.shape, {tensor.own_strides.get(), dims});
  tensor.view.strides = {tensor.own_strides.get(), dims};
}

}  // namespace

void copy_text(const std::string& text, char* out, std::size_t bytes) {
  if (out == nullptr || bytes == 0) return;
  const std::size_t n = std::min(bytes - 1, text.size());
  std::memcpy(out, text.data(), n);
  out[n] = '\0';
}

HostTensor tensor_of(const sonde_tensor& in) {
  const std::span<const std::int64_t> shape(in.shape, in.ndim);
  const auto device = in.device <= SONDE_DEVICE_OTHER ? static_cast<DeviceType>(in.device) : DeviceType::other;
  const DeviceAccess* access = device_access(device);
  const void* handle = access == nullptr && reads_devices() ? in.handle : nullptr;
  const bool unreadable = in.skip == nullptr && access == nullptr && handle == nullptr;
  // All fields at once: this is called for every tensor, and the object is large.
  HostTensor out{.view = {.dtype = in.dtype <= SONDE_DTYPE_QINT32 ? static_cast<DType>(in.dtype) : DType::undefined,
                          .device = device,
                          .conjugate = (in.flags & SONDE_TENSOR_CONJUGATE) != 0,
                          .negative = (in.flags & SONDE_TENSOR_NEGATIVE) != 0,
                          .data = static_cast<const std::byte*>(in.data),
                          .shape = shape,
                          .strides = {in.strides, in.strides != nullptr ? in.ndim : 0}},
                 .access = access,
                 .handle = handle,
                 .skip = unreadable ? "on a device that this build cannot read" : in.skip,
                 .placement = in.placement,
                 .writer = in.writer,
                 .settled = (in.flags & SONDE_TENSOR_SETTLED) != 0,
                 .foreign = (in.flags & SONDE_TENSOR_FOREIGN) != 0,
                 .observed = (in.flags & SONDE_TENSOR_OBSERVED) != 0,
                 .constant = (in.flags & SONDE_TENSOR_CONSTANT) != 0,
                 .uninitialised = (in.flags & SONDE_TENSOR_UNINITIALISED) != 0,
                 .storage = in.storage,
                 .object = in.object,
                 .storage_data = static_cast<const std::byte*>(in.storage_data),
                 .storage_bytes = in.storage_bytes,
                 .own_strides = nullptr};
  if (in.strides == nullptr) give_strides(out);
  return out;
}

sonde_tensor tensor_on_device(const HostTensor& tensor, const TensorView& view) {
  sonde_tensor out{};
  out.size = sizeof out;
  out.dtype = static_cast<std::uint32_t>(view.dtype);
  out.data = view.data;
  out.shape = view.shape.data();
  out.strides = view.strides.data();
  out.ndim = static_cast<std::uint32_t>(view.shape.size());
  out.device = static_cast<std::uint32_t>(view.device);
  out.flags = (view.conjugate ? SONDE_TENSOR_CONJUGATE : 0U) | (view.negative ? SONDE_TENSOR_NEGATIVE : 0U);
  out.storage = tensor.storage;
  out.storage_data = tensor.storage_data;
  out.storage_bytes = tensor.storage_bytes;
  out.handle = tensor.handle;
  return out;
}

Site site_of(const sonde_site& in) {
  Site site;
  site.phase = in.phase <= SONDE_PHASE_RECOMPUTE ? static_cast<Phase>(in.phase) : Phase::outside;
  site.op_type = string_of(in.op_type);
  site.scope = string_of(in.scope);
  site.flagged = (in.flags & SONDE_SITE_FLAGGED) != 0;
  site.forward_site = in.forward_site;
  const std::uint32_t lines = in.trace != nullptr ? in.trace_count : 0;
  for (std::uint32_t i = 0; i < lines; ++i) site.trace.push_back(line_of(in.trace[i]));
  return site;
}

Attribute attribute_of(const sonde_attribute& in) {
  Attribute out;
  out.name = string_of(in.name);
  out.kind = in.kind <= SONDE_ATTRIBUTE_REALS ? static_cast<AttributeKind>(in.kind) : AttributeKind::none;
  out.text = string_of(in.text);
  if (in.integers != nullptr) out.integers.assign(in.integers, in.integers + in.count);
  if (in.reals != nullptr) out.reals.assign(in.reals, in.reals + in.count);
  return out;
}

RunInfo run_info_of(const sonde_run_info& in) {
  RunInfo out;
  out.rank = in.rank;
  out.world_size = std::max(in.world_size, 1U);
  out.device = in.device;
  out.host = string_of(in.host);
  out.command = string_of(in.command);
  return out;
}

QuietForward quiet_forward_of(const sonde_quiet_forward& in) {
  return {.root = in.root,
          .optimizer_alive = in.optimizer_alive != 0,
          .trained = in.trained != 0,
          .evaluates = in.evaluates != 0};
}

NamedOp named_op_of(const sonde_named_op& in) {
  return {.step = {in.graph, in.step}, .op_name = in.op_name, .op_type = in.op_type};
}

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
