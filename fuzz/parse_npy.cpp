// libFuzzer entry over parse_npy_header: clang++ -fsanitize=fuzzer,address … fuzz/parse_npy.cpp. ctest runs it over a small
// mutated corpus (tests/engine/catalog/readers_fuzz_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dump/formats/npy_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const sonde::Result<sonde::NpyHeader> header = sonde::parse_npy_header(bytes, size);
  if (!header) {
    if (header.error().message.empty()) std::abort();
    return 0;
  }
  if (header->data_offset > size || header->data_bytes > size - header->data_offset) std::abort();  // outside the file
  return 0;
}
