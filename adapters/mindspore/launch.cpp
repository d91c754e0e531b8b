// Second definitions of MindSpore's functions around a kernel: see interpose.cpp, and README.md for the calls
// that pass through them. They always call MindSpore's functions; while Sonde records, they ask the dumper for the
// inputs of an operator before its kernel runs, because many kernels write their inputs.
//
// NativeCpuKernelMod::Launch is the entry in every vtable of a CPU kernel (but one) that MindSpore uses to launch
// kernels.
#include <charconv>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "adapter.h"
#include "kernels.h"
#include "originals.h"

#define SONDE_INTERPOSED __attribute__((visibility("default")))

namespace mindspore {

class AnfNode;
class CNode;
class CPUE2eDump {
 public:
  static void DumpCNodeData(const std::shared_ptr<CNode>& node, std::uint32_t graph);
};

namespace device {
class DeviceContext;
}
namespace kernel {
class KernelMod;
class KernelTensor;
using Tensors = std::vector<KernelTensor*>;

class SONDE_INTERPOSED NativeCpuKernelMod {
 public:
  bool Launch(const Tensors& inputs, const Tensors& workspace, const Tensors& outputs, void* stream);
};
}  // namespace kernel

namespace session {
class KernelGraph;
class SONDE_INTERPOSED AnfRuntimeAlgorithm {
 public:
  static void SetKernelMod(const std::shared_ptr<kernel::KernelMod>& kernel, AnfNode* node);
};
}  // namespace session

namespace pynative {
class OpCompilerInfo;
class SONDE_INTERPOSED OpCompiler {
 public:
  void KernelBuild(const std::shared_ptr<OpCompilerInfo>& info, const device::DeviceContext* device,
                   bool is_dynamic) const;
};
}  // namespace pynative

}  // namespace mindspore

namespace {

using sonde_mindspore::original;

constexpr const char* kLaunch =
    "_ZN9mindspore6kernel18NativeCpuKernelMod6LaunchERKSt6vectorIPNS0_12KernelTensorESaIS4_EES8_S8_Pv";
constexpr const char* kSetKernelMod =
    "_ZN9mindspore7session19AnfRuntimeAlgorithm12SetKernelModERKSt10shared_ptrINS_6kernel9KernelModEEPNS_7AnfNodeE";
constexpr const char* kFetchKernelGraph = "_ZN9mindspore7session19AnfRuntimeAlgorithm16FetchKernelGraphEPKNS_7AnfNodeE";
constexpr const char* kGraphToString = "_ZNK9mindspore7session11KernelGraph8ToStringEv";
constexpr const char* kCastToCNode = "_ZN9mindspore4Base4castISt10shared_ptrINS_5CNodeEES3_EET_v";
constexpr const char* kKernelBuild =
    "_ZNK9mindspore8pynative10OpCompiler11KernelBuildERKSt10shared_ptrINS0_14OpCompilerInfoEEPKNS_"
    "6device13DeviceContextEb";

// PyNative mode compiles some single operators on this thread; MindSpore's dumper does not visit them.
thread_local bool t_single_operator = false;

using Node = std::shared_ptr<mindspore::CNode>;

// Base::cast<CNodePtr>(), a member function that returns a shared_ptr: the node itself, which must live.
Node pointer_to(mindspore::AnfNode* node) {
  static auto* const cast = original<Node(mindspore::AnfNode*)>(kCastToCNode);
  return cast != nullptr && node != nullptr ? cast(node) : nullptr;
}

// The number of the graph of `node`, from the graph's text: "kernel_graph0". False: it is in none.
bool graph_of(const Node& node, std::uint32_t& number) {
  using Graph = std::shared_ptr<mindspore::session::KernelGraph>;
  static auto* const fetch = original<Graph(const mindspore::CNode*)>(kFetchKernelGraph);
  static auto* const to_string = original<std::string(const mindspore::session::KernelGraph*)>(kGraphToString);
  if (fetch == nullptr || to_string == nullptr) return false;
  const Graph graph = fetch(node.get());
  if (graph == nullptr) return false;
  const std::string text = to_string(graph.get());
  const std::size_t digits = text.find_first_of("0123456789");
  if (digits == std::string::npos) return false;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + digits, end, number);
  return error == std::errc() && stop == end;
}

// Makes MindSpore's dumper visit the inputs of `node` now.
void report_inputs(const Node& node) {
  try {
    std::uint32_t graph = 0;
    if (graph_of(node, graph)) mindspore::CPUE2eDump::DumpCNodeData(node, graph);
  } catch (...) {  // the inputs are read after the kernel
  }
}

}  // namespace

namespace mindspore {

bool kernel::NativeCpuKernelMod::Launch(const Tensors& inputs, const Tensors& workspace, const Tensors& outputs,
                                        void* stream) {
  // A library that calls this one also contains MindSpore's own, which vtables would name without Sonde.
  static auto* const theirs =
      original<bool(NativeCpuKernelMod*, const Tensors&, const Tensors&, const Tensors&, void*)>(kLaunch);
  if (sonde_mindspore::looks_for_pynative() &&
      sonde_mindspore::node_of(reinterpret_cast<const KernelMod*>(this)) == nullptr) {
    sonde_mindspore::says_pynative();
  }
  if (!sonde_mindspore::reads_before()) return theirs(this, inputs, workspace, outputs, stream);
  const Node node = sonde_mindspore::node_of(reinterpret_cast<const KernelMod*>(this));
  if (node == nullptr) return theirs(this, inputs, workspace, outputs, stream);
  sonde_mindspore::KernelRun run;
  report_inputs(node);
  run.begin();
  const bool done = theirs(this, inputs, workspace, outputs, stream);
  if (done) run.succeeded();
  return done;
}

void session::AnfRuntimeAlgorithm::SetKernelMod(const std::shared_ptr<kernel::KernelMod>& kernel, AnfNode* node) {
  static auto* const theirs = original<void(const std::shared_ptr<kernel::KernelMod>&, AnfNode*)>(kSetKernelMod);
  if (theirs != nullptr) theirs(kernel, node);
  if (t_single_operator) return;
  try {
    if (const Node pointer = pointer_to(node)) sonde_mindspore::remember_kernel(kernel, pointer);
  } catch (...) {  // the inputs are read after the kernel
  }
}

void pynative::OpCompiler::KernelBuild(const std::shared_ptr<OpCompilerInfo>& info, const device::DeviceContext* device,
                                       bool is_dynamic) const {
  static auto* const theirs =
      original<void(const OpCompiler*, const std::shared_ptr<OpCompilerInfo>&, const device::DeviceContext*, bool)>(
          kKernelBuild);
  if (theirs == nullptr) return;
  struct Single {
    Single() { t_single_operator = true; }
    ~Single() { t_single_operator = false; }
  };
  const Single single;
  theirs(this, info, device, is_dynamic);
}

}  // namespace mindspore

extern "C" {

// Null if inputs can be read before a kernel; otherwise the missing symbol.
SONDE_INTERPOSED const char* sonde_mindspore_missing_before() {
  for (const char* symbol : {kSetKernelMod, kFetchKernelGraph, kGraphToString, kCastToCNode, kKernelBuild}) {
    if (sonde_mindspore::find_in_mindspore(symbol) == nullptr) return symbol;
  }
  return nullptr;
}

// The mode of MindSpore's context.
SONDE_INTERPOSED void sonde_mindspore_set_pynative(int pynative) { sonde_mindspore::set_pynative(pynative != 0); }

// Before the session ends, since a run without a tensor has not been described.
SONDE_INTERPOSED void sonde_mindspore_report_run() { sonde_mindspore::report_run(); }

SONDE_INTERPOSED void sonde_mindspore_read_before(int before) { sonde_mindspore::set_reads_before(before != 0); }
}
