// libFuzzer entry over parse_plan: clang++ -fsanitize=fuzzer,address … fuzz/parse_plan.cpp. ctest
// runs it over a small mutated corpus (tests/engine/config/parse_plan_fuzz_test.cpp).
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "face/report/plan_text.h"
#include "plan/config/plan.h"
#include "plan/config/selector.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  (void)sonde::parse_recorded_plan(text, "fuzz.json");
  const sonde::PlanResult result = sonde::parse_plan(text, "fuzz.json");
  bool has_error = false;
  for (const sonde::Diagnostic& diagnostic : result.diagnostics) {
    has_error = has_error || diagnostic.is_error;
    if (sonde::text_of(diagnostic, "fuzz.json").empty()) std::abort();
  }
  if (has_error == result.plan.has_value()) std::abort();  // a plan, or a reason why not
  if (!result.plan) return 0;
  if (sonde::describe(*result.plan).empty() || (!result.plan->path.is_absolute() && result.plan->nothing.empty())) {
    std::abort();
  }
  sonde::Selector selector(*result.plan);
  selector.decide_op("Default/network-Net/conv1-Conv2d/conv2d-op0", "conv2d");
  selector.decide_parameter(text.substr(0, 300));
  (void)selector.unused();
  return 0;
}
