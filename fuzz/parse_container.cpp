// libFuzzer entry over parse_container: clang++ -fsanitize=fuzzer,address … fuzz/parse_container.cpp. ctest runs it over
// a small mutated corpus (tests/engine/formats/container_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "dump/formats/container.h"
#include "ground/tensor/reformat.h"

namespace {

// A plan must not read or write outside its buffers, nor take forever, whatever the shape in the file.
void plan(const sonde::ContainerTensor& tensor) {
  using sonde::Format;
  std::vector<std::int64_t> shape(tensor.shape.begin(), tensor.shape.end());
  const std::vector<std::int64_t> original(tensor.original_shape.begin(), tensor.original_shape.end());
  const auto format = static_cast<Format>(tensor.format & 0xFF);
  // As in convert: elements that the file lacks are not read.
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || size > 4096 || (elements *= size) > 4096) return;
  }
  const auto real = sonde::find_order({format, shape, tensor.sub_format}, original);
  for (const Format to : {Format::nchw, Format::fractal_z, Format::fractal_nz, Format::nd}) {
    const auto made = sonde::plan_reformat({format, shape, tensor.sub_format}, to, real);
    if (!made || made->elements() > 1 << 20) continue;
    const std::vector<std::byte> from(static_cast<std::size_t>(elements));
    std::vector<std::byte> out(static_cast<std::size_t>(made->elements()));
    made->copy(from.data(), out.data(), 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const bool allow_cut : {false, true}) {
    const sonde::Result<sonde::Container> container = sonde::parse_container(bytes, size, allow_cut);
    if (!container) {
      if (container.error().message.empty()) std::abort();
      continue;
    }
    const auto check = [&](const auto& parts) {
      for (const auto& part : parts) {
        if (part.offset > size || part.bytes > size - part.offset) std::abort();  // outside the file
        if (part.is_cut && !allow_cut) std::abort();
      }
    };
    check(container->inputs);
    check(container->outputs);
    check(container->buffers);
    check(container->spaces);
    for (const auto* side : {&container->inputs, &container->outputs}) {
      for (const sonde::ContainerTensor& tensor : *side) plan(tensor);
    }
  }
  return 0;
}
