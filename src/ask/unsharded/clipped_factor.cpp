#include "ask/unsharded/clipped_factor.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ask/compare/factor.h"
#include "ask/unsharded/op_evidence.h"
#include "ground/model/gradient_name.h"

namespace sonde {
namespace {

using State = WholeStep::State;

bool is_number(const CatalogTensor& tensor) { return tensor.has_shape && tensor.shape.empty(); }

// A gradient that the op reads is a number of times the golden one, by more than rounding.
bool reads_gradients_times(const WholeStep& step, std::uint32_t golden) {
  return std::ranges::any_of(step.golden().ops[golden].inputs, [&](const CompareInput& input) {
    if (!input.is_read || !input.tensor->recorded() || is_number(*input.tensor)) return false;
    const bool is_backward = input.from != kNoOp && step.address(input.from).site.place.kind == SiteKind::backward;
    if (!is_backward && !is_gradient_name(input.name)) return false;
    const Joined read = step.joiner().join_input(golden, input, *step.label(golden).where);
    if (!read.possible || read.fits) return false;
    return factor_between(read.difference) || (step.joiner().has_halves() && near_factor_between(read.difference));
  });
}

bool reads_other_number(const WholeStep& step, std::uint32_t golden) {
  return std::ranges::any_of(step.golden().ops[golden].inputs, [&](const CompareInput& input) {
    if (!input.is_read || !is_number(*input.tensor) || input.tensor->constant || input.from == kNoOp) return false;
    return step.label(input.from).state == State::differs;
  });
}

}  // namespace

bool is_hidden_by_clipping(const WholeStep& step, const std::vector<std::vector<std::uint32_t>>& readers,
                           std::uint32_t golden) {
  if (step.address(golden).site.place.kind != SiteKind::forward || !reads_gradients_times(step, golden)) return false;
  std::set<std::uint32_t> seen;
  std::vector<std::uint32_t> waiting = {golden};
  bool is_hidden = false;
  while (!waiting.empty()) {
    const std::uint32_t at = waiting.back();
    waiting.pop_back();
    if (!seen.insert(at).second) continue;
    for (const std::uint32_t reader : readers[at]) {
      if (step.label(reader).state != State::found) {
        waiting.push_back(reader);
        continue;
      }
      // The program divides the norm itself: it is the golden one before the gradients are scaled.
      const std::vector<const CatalogTensor*>& outputs = step.golden().ops[reader].outputs;
      if (std::ranges::any_of(outputs, [](const CatalogTensor* output) { return is_number(*output); })) return false;
      is_hidden = is_hidden || (reads_gradients_times(step, reader) && reads_other_number(step, reader));
    }
  }
  return is_hidden;
}

}  // namespace sonde
