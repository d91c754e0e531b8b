// libFuzzer entry over the readers of MindSpore's graph files: clang++ -fsanitize=fuzzer,address … fuzz/parse_graph.cpp.
// ctest runs it over a small mutated corpus (tests/engine/graph/host_graph_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "dump/graph/execution_order.h"
#include "dump/graph/host_graph.h"

namespace {

void check(const sonde::HostGraph& graph) {
  for (const sonde::HostOp& op : graph.ops) {
    for (const sonde::HostInput& input : op.inputs) {
      if (input.kind == sonde::HostInput::Kind::op && input.op >= graph.ops.size()) std::abort();
    }
    for (const sonde::Attribute& attribute : op.attributes) {
      if (sonde::text_of(attribute).size() > (1 << 20)) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const sonde::Result<sonde::HostGraph> graph = sonde::read_model_proto(bytes);
  if (graph) {
    check(*graph);
  } else if (graph.error().message.empty()) {
    std::abort();
  }
  check(sonde::read_ir_text(bytes));
  sonde::ExecutionOrderNames order(bytes);
  for (const std::string& name : order.names()) {
    if (order.name_of(name) != name) std::abort();
  }
  if (order.name_of("Default/Add-op7").empty()) std::abort();
  return 0;
}
