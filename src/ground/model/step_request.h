// StepRequest: the rows that a request has in the batch of a step, in engines that serve many requests at once.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace sonde
