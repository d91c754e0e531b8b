// The first error in a dump, or between two: an example of sonde/findings.h.
//
//   c++ -std=c++20 first_bad.cpp $(pkg-config --cflags --libs sonde) -o first_bad
//   ./first_bad /data/run7
//   ./first_bad /data/on_npu /data/on_cpu
#include <cstdio>

#include "sonde/findings.h"

namespace {

int fail(const sonde::Error& error) {
  std::fprintf(stderr, "error: %s\n", error.message.c_str());
  return 3;
}

int look_at(const sonde::Dump& dump) {
  const sonde::Result<sonde::FirstBad> report = sonde::first_bad(dump);
  if (!report) return fail(report.error());
  if (report->findings.empty()) {
    std::puts(report->complete ? "nothing wrong" : "nothing found, and not everything could be examined");
    return report->complete ? 0 : 3;
  }
  const sonde::Finding& first = report->findings.front();
  std::printf("%s in step %llu, %s:%u: %s\n", first.tensor.op_name.c_str(), static_cast<unsigned long long>(first.step),
              first.code.source_file.c_str(), first.code.source_line, first.why.c_str());
  return 1;
}

int compare_with(const sonde::Dump& target, const sonde::Dump& golden) {
  const sonde::Result<sonde::ComparedDumps> comparison = sonde::compare(target, golden);
  if (!comparison) return fail(comparison.error());
  std::fputs(comparison->text().c_str(), stdout);
  return !comparison->answer().complete ? 3 : comparison->answer().findings.empty() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::fprintf(stderr, "usage: first_bad DUMP [GOLDEN]\n");
    return 2;
  }
  const sonde::Result<sonde::Dump> dump = sonde::Dump::open(argv[1]);
  if (!dump) return fail(dump.error());
  if (argc == 2) return look_at(*dump);
  const sonde::Result<sonde::Dump> golden = sonde::Dump::open(argv[2]);
  return golden ? compare_with(*dump, *golden) : fail(golden.error());
}
