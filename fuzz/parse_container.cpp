// libFuzzer entry over parse_container: clang++ -fsanitize=fuzzer,address … fuzz/parse_container.cpp. ctest runs it over
// a small mutated corpus (tests/engine/store/container_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "store/container.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const sonde::Result<sonde::Container> container = sonde::parse_container(bytes, size);
  if (!container) {
    if (container.error().message.empty()) std::abort();
    return 0;
  }
  for (const auto* side : {&container->inputs, &container->outputs}) {
    for (const sonde::ContainerTensor& tensor : *side) {
      if (tensor.offset > size || tensor.bytes > size - tensor.offset) std::abort();  // outside the file
    }
  }
  return 0;
}
