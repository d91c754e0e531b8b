#include "record/capture/named_tensors.h"

#include <algorithm>

namespace sonde {

NamedTensors::Named& NamedTensors::name(const OpName& name, const HostTensor& tensor, std::uint64_t step,
                                        bool& is_new) {
  std::pmr::vector<Named>& here = named_.obtain(tensor.storage).first->tensors;
  auto known = std::ranges::find(here, &name, &Named::name);
  is_new = known == here.end();
  Named& named = is_new ? here.emplace_back() : *known;
  named.name = &name;
  named.named_in_step = step;
  named.conjugate = tensor.view.conjugate;
  named.negative = tensor.view.negative;
  named.data = tensor.view.data;
  named.dtype = tensor.view.dtype;
  named.shape = Dims(tensor.view.shape);
  named.strides = Dims(tensor.view.strides);
  named.extent_bytes = extent_bytes(tensor.view);
  return named;
}

NamedTensors::Named* NamedTensors::find(const HostTensor& tensor) {
  NamedHere* here = named_.find(tensor.storage);
  if (here == nullptr) return nullptr;
  const std::uint64_t bytes = std::max<std::uint64_t>(tensor.view.bytes(), 1);
  Named* first = nullptr;
  for (Named& named : here->tensors) {
    if (!overlaps(tensor.view.data, bytes, named.data, named.extent_bytes)) continue;
    if (named.data == tensor.view.data && named.extent_bytes == bytes) return &named;
    if (first == nullptr) first = &named;
  }
  return first;
}

NamedTensors::DataNumber* NamedTensors::data_number(std::uint64_t storage, std::uint32_t graph,
                                                    std::uint64_t step_stamp, bool backward, bool has_constants) {
  auto& numbers = data_[graph];
  const bool known = numbers.find(storage) != nullptr;
  if (backward && !known) return nullptr;
  if (has_constants) {
    std::uint64_t& collected_in = constants_stamp_[graph];
    if (collected_in == 0) collected_in = step_stamp;
    if (collected_in != step_stamp && !known) return nullptr;
  }
  const auto [number, is_new] = numbers.obtain(storage);
  if (is_new) number->value = static_cast<std::uint32_t>(numbers.size() - 1);
  return number;
}

// Constants keep their numbers as long as the graph lives.
void NamedTensors::begin_step(std::uint32_t graph, bool has_constants) {
  if (!has_constants) data_[graph].clear();
}

void NamedTensors::forget_older_than(std::uint64_t step) {
  named_.for_each([&](std::uint64_t, NamedHere& here) {
    std::erase_if(here.tensors, [&](const Named& named) { return named.named_in_step < step; });
  });
  named_.erase_if([](const NamedHere& here) { return here.tensors.empty(); });
}

void NamedTensors::clear() {
  named_.release();
  data_.clear();
}

WholeTensor::WholeTensor(const NamedTensors::Named& named, const HostTensor& reader)
    : shape_(named.shape), strides_(named.strides) {
  tensor_.view.dtype = named.dtype;
  tensor_.view.device = reader.view.device;
  tensor_.view.conjugate = named.conjugate;
  tensor_.view.negative = named.negative;
  tensor_.view.data = named.data;
  tensor_.view.shape = shape_.values();
  tensor_.view.strides = strides_.values();
  tensor_.access = reader.access;
  tensor_.handle = reader.handle;
  tensor_.foreign = reader.foreign;
  tensor_.observed = reader.observed;
  tensor_.storage = reader.storage;
  tensor_.storage_data = reader.storage_data;
  tensor_.storage_bytes = reader.storage_bytes;
}

bool WholeTensor::is_inside_storage() const {
  const std::byte* data = tensor_.view.data;
  return data >= tensor_.storage_data &&
         data + extent_bytes(tensor_.view) <= tensor_.storage_data + tensor_.storage_bytes;
}

}  // namespace sonde
