// libFuzzer entry over the tables of dumps (statistic.csv, an op's table, mapping.csv) and the names of their files:
// clang++ -fsanitize=fuzzer,address … fuzz/parse_tables.cpp. ctest runs it over a small mutated corpus
// (tests/engine/catalog/readers_fuzz_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "dump/formats/atb_file.h"
#include "dump/formats/file_names.h"
#include "read/catalog/name_mapping.h"
#include "read/catalog/statistic_table.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const sonde::Result<sonde::StatisticTable> table = sonde::parse_statistic_table(text);
  if (table) {
    for (const sonde::StatisticRow& row : table->rows) {
      if (row.op_name.empty()) std::abort();
    }
  } else if (table.error().message.empty()) {
    std::abort();
  }
  sonde::OpFileName op;
  op.op_name = "a";
  (void)sonde::parse_op_table(text, op);
  const sonde::NameMapping names = sonde::parse_name_mapping(text);
  for (const auto& [number, name] : names.names) {
    if (name.find('/') != std::string::npos) std::abort();  // outside the directory
    sonde::TensorFileName tensor;
    (void)sonde::parse_tensor_file_name(name, tensor);
    (void)sonde::parse_op_file_name(name, op, true);
  }
  const sonde::Result<sonde::AtbHeader> atb = sonde::parse_atb(text);
  if (atb && atb->data_offset > size) std::abort();
  return 0;
}
