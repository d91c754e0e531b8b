// StepRequest: the rows that a request has in the batch of a step, in engines that serve many requests at once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ground/model/attribute.h"

namespace sonde {

struct StepRequest {
  std::string request;         // as the engine names it
  std::uint64_t row = 0;       // its first row in the batch
  std::uint64_t rows = 0;      // one for each of its tokens
  std::uint64_t position = 0;  // of the first row's token in the request
};

// In the journal: an attribute of the step's begin, with the request's name and three integers.
Attribute attribute_of(const StepRequest& request);
StepRequest request_of(const Attribute& attribute);  // what the attribute lacks is 0

// Whether the user means this request: by its whole name, or by the one that the user gave or got, to which vLLM adds
// what makes it unique: `mine` is `mine-1f0c23ab`, `cmpl-mine-0-1f0c23ab` or `chatcmpl-mine-1f0c23ab`.
bool is_meant(std::string_view request, std::string_view asked);

}  // namespace sonde
