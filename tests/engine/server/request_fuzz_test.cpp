// Runs the fuzz entry of requests over good addresses with random damage (always the same), and cut off at every byte.
#include <gtest/gtest.h>

#include "broken_text.h"

extern "C" sonde::FuzzEntry fuzz_request;

namespace sonde {
namespace {

TEST(RequestFuzz, AddressesFiltersSlicesTablesAndJobs) {
  survive(
      fuzz_request,
      {R"({"kind": "compare", "arguments": {"steps": "1-3", "graph": 0, "rtol": 1e-3, "csv": true, "mapping": "a,b"}})",
       R"({"kind": "watch", "arguments": {"dump": 1, "conditions": ["a"], "select": [], "recommended": false}})",
       "/api/v1/tensors?filter=phase%3Abackward+l2norm%3E%3D1e3+op%3Aconv.*&sort=-l2norm&limit=3",
       "/api/v1/tensor/values?slice=%5B-1%2C%3A%2C1%3A4%3A2%5D&name=Default%2Fnet",
       "/api/v1/ops?filter=%22two%20words%22+class:nan+side:input+dtype:float16+parameter:conv.*+**/conv*",
       "/api/v1/tensor/heat?slice=0,:,:&w=&h=4096"});
}

// A stack of 8 MB is used up by a hundred thousand levels.
TEST(RequestFuzz, NestedDeeplyInAnyPlace) {
  for (const std::string_view open : {"[", R"({"a":)"}) {
    for (const char* around : {"%", R"({"kind": %})", R"({"kind": "watch", "arguments": {"conditions": %}})"}) {
      std::string nested;
      for (int i = 0; i < 120'000; ++i) nested += open;
      nested += open == "[" ? "" : "0";
      for (int i = 0; i < 120'000; ++i) nested += open == "[" ? ']' : '}';
      std::string text = around;
      text.replace(text.find('%'), 1, nested);
      fuzz_request(reinterpret_cast<const std::uint8_t*>(text.data()), text.size());
    }
  }
}

}  // namespace
}  // namespace sonde
