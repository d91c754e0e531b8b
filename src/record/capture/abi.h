// Structs of the C ABI: read in the size given by the host's header (sonde.h, "Versions") and converted to the
// engine's own types. Only this file and api.cpp use them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

#include "dump/journal/record.h"
#include "ground/model/attribute.h"
#include "record/capture/host_tensor.h"
#include "record/capture/named_host.h"
#include "record/capture/step_clock.h"
#include "sonde/sonde.h"

namespace sonde {

// Describes a struct that every host must fill at least in part: up to the line "may be missing" of sonde.h.
template <typename T>
struct AbiStruct;

// `last`: the last mandatory field.
#define SONDE_ABI_STRUCT(type, last)                                                                   \
  template <>                                                                                          \
  struct AbiStruct<type> {                                                                             \
    static constexpr const char* kName = "struct " #type;                                              \
    static constexpr std::size_t kRequiredBytes = offsetof(type, last) + sizeof(decltype(type::last)); \
  }
SONDE_ABI_STRUCT(sonde_tensor, device);
SONDE_ABI_STRUCT(sonde_site, op_type);
SONDE_ABI_STRUCT(sonde_quiet_forward, root);
SONDE_ABI_STRUCT(sonde_run_info, device);
SONDE_ABI_STRUCT(sonde_named_op, op_type);
SONDE_ABI_STRUCT(sonde_host_settings, net_name);
SONDE_ABI_STRUCT(sonde_pool, run);
SONDE_ABI_STRUCT(sonde_devices, drain);
SONDE_ABI_STRUCT(sonde_device_queue, device);
SONDE_ABI_STRUCT(sonde_device_result, sum_squares);
#undef SONDE_ABI_STRUCT

template <typename T>
bool is_complete(const T& given) {
  return given.size >= AbiStruct<T>::kRequiredBytes;
}

// A copy with all fields: 0 for those the host lacks. Never reads beyond given.size. Only if is_complete().
template <typename T>
T completed(const T& given) {
  if (given.size == sizeof(T)) return given;
  T all{};
  std::memcpy(&all, &given, std::min<std::size_t>(given.size, sizeof(T)));
  return all;
}

// Cuts what does not fit; `out` may be null.
void copy_text(const std::string& text, char* out, std::size_t bytes);

// Message for the user about an incomplete struct.
std::string too_short(const char* name, std::size_t found, std::size_t required);
template <typename T>
std::string too_short(const T& given) {
  return too_short(AbiStruct<T>::kName, given.size, AbiStruct<T>::kRequiredBytes);
}

// Each borrows or copies what the struct points to. Numbers that sonde.h does not define become `undefined`, `other`,
// `outside` and `none`.
HostTensor tensor_of(const sonde_tensor& tensor);
// The other way, for a host that reads memory of devices: `view` lies in the memory of `tensor`. Borrows.
sonde_tensor tensor_on_device(const HostTensor& tensor, const TensorView& view);
Site site_of(const sonde_site& site);
Attribute attribute_of(const sonde_attribute& attribute);
RunInfo run_info_of(const sonde_run_info& info);
QuietForward quiet_forward_of(const sonde_quiet_forward& forward);
NamedOp named_op_of(const sonde_named_op& op);

// The reason why an adapter built for this version and size of the table cannot use this one; empty if it can.
std::string table_mismatch(std::uint32_t version, std::uint32_t table_size);

}  // namespace sonde
