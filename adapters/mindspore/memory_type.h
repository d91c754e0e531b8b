// Finds the element type of the memory behind a tensor of MindSpore's dumper. The dumper names the type that the graph
// infers. The kernel may have another one: on a CPU MindSpore raises kernels of float16 to float32, and the inferred
// type stays float16 until the inserted Cast.
#pragma once

#include <cstdint>
#include <memory>

namespace mindspore {
class AnfNode;
}

namespace sonde_mindspore {

using NodeHandle = std::shared_ptr<mindspore::AnfNode>;

// Lives while MindSpore's dumper visits the inputs or the outputs of `node`, or a parameter, which has one output.
class Visit {
 public:
  Visit(const NodeHandle& node, bool inputs);
  ~Visit();
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
};

// The mindspore::TypeId of the memory of input or output `slot` of the visited node; `inferred` if MindSpore has none.
int memory_type(std::uint32_t slot, int inferred);

}  // namespace sonde_mindspore
