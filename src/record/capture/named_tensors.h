// NamedTensors: finds parameters, buffers, gradients and optimizer state by their memory, and unnamed data.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "dump/journal/record.h"
#include "ground/base/recycled_map.h"
#include "record/capture/host_tensor.h"
#include "record/capture/per_graph.h"

namespace sonde {

// Not synchronised: its owner calls it under the session's lock.
class NamedTensors {
 public:
  struct Named {
    const OpName* name = nullptr;
    std::uint32_t placement = 0;       // of a distributed tensor's part: as in TensorEntry
    std::uint32_t writer = 0;          // as in sonde_tensor
    bool settled = false;              // in optimizers alone
    bool wanted = false;               // the plan records it
    bool by_name = false;              // … or a list names it, with whatever op reads it first
    std::uint64_t recorded_stamp = 0;  // of the step in which it was last recorded
    std::uint64_t named_in_step = 0;   // among the recorded ones
    bool conjugate = false, negative = false;
    const std::byte* data = nullptr;
    DType dtype = DType::undefined;
    Dims shape, strides;
    std::uint64_t extent_bytes = 0;  // from the first to the last element
  };

  // `tensor` is called `name` from now on. For a new one the caller must decide whether it is wanted.
  Named& name(const OpName& name, const HostTensor& tensor, std::uint64_t step, bool& is_new);
  // The one that has the memory of `tensor`, else the first one that shares some of it; null: none.
  Named* find(const HostTensor& tensor);

  struct DataNumber {
    std::uint32_t value = 0;
    const OpName* name = nullptr;  // the caller's, who gives it once
    bool by_name = false;          // the caller's, with the name
    bool settled = false;          // the caller's: recorded, or it never is
    void recycle() { *this = {}; }
  };
  // The N of `data-N` for this storage. Null if it gets none: a number is given to data that
  // the forward reads (in backward it may be something a forward op saved inside) and, where the layout collects
  // the constants of a graph, in the first step only, since later ones are data.
  DataNumber* data_number(std::uint64_t storage, std::uint32_t graph, std::uint64_t step_stamp, bool backward,
                          bool has_constants);
  void begin_step(std::uint32_t graph, bool has_constants);

  void freed(std::uint64_t storage) { named_.erase(storage); }
  // Gradients get new memory in every step: drops those that were not named again lately.
  void forget_older_than(std::uint64_t step);
  void clear();

 private:
  struct NamedHere {
    using allocator_type = std::pmr::polymorphic_allocator<>;
    explicit NamedHere(allocator_type memory) : tensors(memory) {}
    std::pmr::vector<Named> tensors;
    void recycle() { tensors.clear(); }
  };
  RecycledMap<NamedHere> named_;             // by storage
  PerGraph<RecycledMap<DataNumber>> data_;   // storage -> data-N
  PerGraph<std::uint64_t> constants_stamp_;  // the step whose data-N are its constants
};

// A whole named tensor, recorded with the op that reads `reader`, a part of it. Owns its shape.
class WholeTensor {
 public:
  WholeTensor(const NamedTensors::Named& named, const HostTensor& reader);
  WholeTensor(const WholeTensor&) = delete;
  WholeTensor& operator=(const WholeTensor&) = delete;

  const HostTensor& tensor() const { return tensor_; }
  // False: its memory was resized since it was named.
  bool is_inside_storage() const;

 private:
  Dims shape_, strides_;
  HostTensor tensor_;
};

}  // namespace sonde
