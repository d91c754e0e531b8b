// libFuzzer entry over parse_torch, and over the pickle alone: clang++ -fsanitize=fuzzer,address … fuzz/parse_torch.cpp.
// ctest runs it over a small mutated corpus (tests/engine/catalog/readers_fuzz_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dump/formats/pickle.h"
#include "dump/formats/torch_file.h"

namespace {

void check(const sonde::TorchHeader& header, std::size_t size) {
  for (const sonde::TorchTensor& tensor : header.tensors) {
    if (tensor.data_offset > size || tensor.shape.size() != tensor.strides.size()) std::abort();
    std::uint64_t end = 1;
    for (std::size_t d = 0; d < tensor.shape.size(); ++d) {
      if (tensor.shape[d] < 0 || tensor.strides[d] < 0) std::abort();
      if (tensor.shape[d] == 0) end = 0;
      if (end > 0)
        end += static_cast<std::uint64_t>(tensor.shape[d] - 1) * static_cast<std::uint64_t>(tensor.strides[d]);
      if (end == 0) break;
    }
    if (end > size) std::abort();  // outside the file
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const sonde::Result<sonde::TorchHeader> header = sonde::parse_torch(bytes);
  if (header) {
    check(*header, size);
  } else if (header.error().message.empty()) {
    std::abort();
  }
  const sonde::Result<sonde::Pickled> pickled = sonde::read_pickle(bytes);
  if (pickled ? pickled->bytes > size : pickled.error().message.empty()) std::abort();
  return 0;
}
