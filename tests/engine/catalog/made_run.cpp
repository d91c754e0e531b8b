#include "made_run.h"

#include <limits>

namespace sonde {
namespace {

constexpr std::uint64_t kElements = 8;

KnownStatistics statistics_of(Bad bad) {
  KnownStatistics statistics;
  statistics.count = kElements;
  statistics.nan_count = bad.nan;
  statistics.positive_inf_count = bad.positive_inf;
  statistics.negative_inf_count = bad.negative_inf;
  constexpr double kInf = std::numeric_limits<double>::infinity();
  statistics.max = bad.nan > 0 ? std::numeric_limits<double>::quiet_NaN() : bad.positive_inf > 0 ? kInf : 1;
  statistics.min = bad.nan > 0 ? std::numeric_limits<double>::quiet_NaN() : bad.negative_inf > 0 ? -kInf : -1;
  return statistics;
}

CatalogTensor tensor_of(bool is_input, std::uint32_t slot, Bad bad) {
  CatalogTensor tensor;
  tensor.is_input = is_input;
  tensor.slot = slot;
  tensor.dtype = DType::float32;
  tensor.set_shape({2, 4});
  tensor.statistics = statistics_of(bad);
  return tensor;
}

}  // namespace

void MadeRun::next_step() {
  if (catalog_.ranks.empty()) {
    catalog_.ranks.emplace_back();
    rank().has_journal = true;
    rank().runs.emplace_back();
  }
  CatalogStep step;
  step.id.number = rank().steps.size();
  rank().steps.push_back(std::move(step));
}

Made MadeRun::op(const std::string& type, const std::vector<Made>& inputs, Bad bad) {
  CatalogOp op;
  op.op_type = catalog_.texts->keep(type);
  op.phase = phase_;
  op.sequence = sequence_++;
  op.op_name = catalog_.texts->keep("Default/" + type + "-op" + std::to_string(op.sequence));
  for (std::uint32_t slot = 0; slot < inputs.size(); ++slot) {
    CatalogTensor input = tensor_of(true, slot, inputs[slot].bad);
    input.source = inputs[slot].sequence;
    input.parameter = catalog_.texts->keep(inputs[slot].name);
    op.tensors.push_back(std::move(input));
  }
  op.tensors.push_back(tensor_of(false, 0, bad));
  op.tensors.back().content = ++content_;
  const std::uint64_t sequence = op.sequence;
  rank().steps.back().ops.push_back(std::move(op));
  return {sequence, "", bad};
}

Made MadeRun::op_reading(const std::string& type, Made input, Bad read, Bad bad) {
  input.bad = read;
  return op(type, {input}, bad);
}

Made MadeRun::loss(const std::string& type, const std::vector<Made>& inputs, Bad bad) {
  const Made made = op(type, inputs, bad);
  last_output().shape = {};
  return made;
}

}  // namespace sonde
