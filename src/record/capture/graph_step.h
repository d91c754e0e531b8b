// GraphStep: the step that a graph is in, for the classes of one beginning of a session.
#pragma once

#include <cstdint>
#include <vector>

#include "ground/model/step_request.h"
#include "record/capture/per_graph.h"

namespace sonde {

struct GraphStep {
  std::uint64_t stamp = 0;      // changes whenever a step begins
  std::uint32_t next_task = 0;  // ops of that step so far
  bool announced = false;       // the recorder knows that the step has begun
  std::vector<StepRequest> requests;
};
using GraphSteps = PerGraph<GraphStep>;

}  // namespace sonde
