// The tensors of a dump with the largest values: an example of sonde/dump.h.
//
//   c++ -std=c++20 largest.cpp $(pkg-config --cflags --libs sonde) -o largest
//   ./largest /data/run7 conv2
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <utility>
#include <vector>

#include "sonde/dump.h"

namespace {

double largest_of(const sonde::KnownStatistics& statistics) {
  return std::max(std::abs(statistics.max.value_or(0)), std::abs(statistics.min.value_or(0)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: largest DUMP [OPS, a regular expression]\n");
    return 2;
  }
  const sonde::Result<sonde::Dump> dump = sonde::Dump::open(argv[1]);
  if (!dump) {
    std::fprintf(stderr, "error: %s\n", dump.error().message.c_str());
    return 3;
  }
  sonde::DumpSelection outputs;
  outputs.inputs = false;
  if (argc > 2) outputs.op = argv[2];
  const auto selected = dump->select_tensors(outputs);
  if (!selected) {
    std::fprintf(stderr, "error: %s\n", selected.error().message.c_str());
    return 2;
  }
  std::vector<std::pair<double, std::size_t>> found;
  for (const std::size_t tensor : *selected) {
    // From the dump, or else computed from the file.
    if (const auto statistics = dump->statistics(tensor)) found.emplace_back(largest_of(*statistics), tensor);
  }
  std::ranges::sort(found, std::greater());
  found.resize(std::min<std::size_t>(found.size(), 5));
  for (const auto& [largest, index] : found) {
    const sonde::DumpTensor tensor = dump->tensor(index);
    const sonde::DumpOp op = dump->op(tensor.op);
    std::printf("%-10.6g step %llu  %.*s:output.%u", largest, static_cast<unsigned long long>(dump->step(op.step).step),
                static_cast<int>(op.op_name.size()), op.op_name.data(), tensor.slot);
    // The file, mapped: nothing is copied.
    if (const auto values = dump->values(index)) {
      std::printf("  %s of %lld elements", sonde::info(values->dtype()).lower.data(),
                  static_cast<long long>(values->view().elements()));
    }
    std::printf("\n");
  }
  return 0;
}
