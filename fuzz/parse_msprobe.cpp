// libFuzzer entry over the readers of msprobe's JSON: clang++ -fsanitize=fuzzer,address … fuzz/parse_msprobe.cpp. ctest runs
// it over a small mutated corpus (tests/engine/catalog/readers_fuzz_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dump/formats/free_names.h"
#include "read/catalog/msprobe_records.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  sonde::MsprobeHead head;
  (void)sonde::read_msprobe_records(text, head, [](sonde::MsprobeRecord&& record) {
    for (const sonde::MsprobeItem& item : record.items) {
      if (!item.has_shape && !item.shape.empty()) std::abort();
    }
  });
  (void)sonde::read_msprobe_stacks(text, [](std::vector<std::string>&&, std::vector<sonde::SourceLine>&&) {});
  (void)sonde::read_msprobe_parents(text, [](std::string_view, std::string_view) {});
  sonde::JsonReader json(text);
  json.skip();
  sonde::MsprobeName name;
  (void)sonde::parse_msprobe_name(text.substr(0, 300), name);
  (void)sonde::parse_free_tensor_name(text.substr(0, 300));
  return 0;
}
