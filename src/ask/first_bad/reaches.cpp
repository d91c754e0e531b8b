// The data that a bad value reaches, in words.
#include <algorithm>
#include <string>

#include "ask/first_bad/first_bad_search.h"
#include "ground/model/gradient_name.h"

namespace sonde {
namespace {

bool reads_gradient(const FlowOp& op, const ValueFlow& flow) {
  return std::ranges::any_of(op.inputs, [&](const FlowInput& input) {
    const FlowOp* maker = flow.graph().maker(input);
    return is_gradient_name(input.tensor->parameter) || (maker != nullptr && maker->phase == Phase::backward);
  });
}

bool is_read_by_failed(const FlowOp& op, const ValueFlow& flow) {
  return std::ranges::any_of(op.outputs, [&](std::uint32_t output) {
    return std::ranges::any_of(flow.graph().values()[output].readers,
                               [&](const FlowReader& reader) { return flow.ops()[reader.op].op->failed; });
  });
}

}  // namespace

std::string reaches_of(RankSearch& search, const Root& root) {
  const FlowOp& last = search.flow().ops()[root.path.back()];
  switch (root.end) {
    case End::matters:
    case End::scaler:
      if (root.lost) return reads_gradient(last, search.flow()) ? "a gradient" : "a normalisation";
      if (is_read_by_failed(last, search.flow())) return "an operator that failed";
      if (last.phase == Phase::backward) return "a gradient";
      if (last.phase == Phase::optimizer) return "a parameter";
      return "the loss";
    case End::decides:
      return "a comparison or an index";
    case End::unread:
      return "a result that no operator in the dump reads";
    default:
      return "operators whose results were not recorded";
  }
}

}  // namespace sonde
