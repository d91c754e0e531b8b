#include "ask/first_bad/loss_places.h"

#include "ask/first_bad/flow_facts.h"
#include "read/operators/op_questions.h"

namespace sonde {

LossPlaces loss_places(const CatalogRank& rank) {
  LossPlaces places;
  for (const CatalogStep& step : rank.steps) {
    DataFlow flow(rank);
    for (const CatalogOp& op : step.ops) {
      if (op.is_parameter) continue;
      if (begins_backward(op.op_type) && !op.tensors.empty() && is_scalar(&op.tensors[0])) {
        const std::optional<DataFlow::Maker> maker = flow.maker(op.tensors[0]);
        if (maker && maker->op->line != 0) places.insert({maker->op->source_file, maker->op->line, maker->op->op_type});
      }
      flow.add(op);
    }
  }
  return places;
}

}  // namespace sonde
