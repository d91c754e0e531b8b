// Runs the fuzz entry of requests over good addresses with random damage (always the same), and cut off at every byte.
#include <gtest/gtest.h>

#include "broken_text.h"

extern "C" sonde::FuzzEntry fuzz_request;

namespace sonde {
namespace {

TEST(RequestFuzz, AddressesFiltersSlicesAndTables) {
  survive(fuzz_request,
          {"/api/v1/tensors?filter=phase%3Abackward+l2norm%3E%3D1e3+op%3Aconv.*&sort=-l2norm&limit=3",
           "/api/v1/tensor/values?slice=%5B-1%2C%3A%2C1%3A4%3A2%5D&name=Default%2Fnet",
           "/api/v1/ops?filter=%22two%20words%22+class:nan+side:input+dtype:float16+parameter:conv.*+**/conv*",
           "/api/v1/tensor/heat?slice=0,:,:&w=&h=4096"});
}

}  // namespace
}  // namespace sonde
