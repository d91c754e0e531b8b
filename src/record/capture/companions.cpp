#include "record/capture/companions.h"

#include <algorithm>

#include "ground/model/data_name.h"

namespace sonde {

Companions::Companions(const Plan& plan, const SiteTable& sites, Selector& selector, OpNames& names, GraphSteps& steps,
                       const ContentCache& cache)
    : sites_(sites),
      selector_(selector),
      names_(names),
      steps_(steps),
      cache_(cache),
      emits_(!plan.searches() && plan.acl.scene != Scene::watcher) {}

void Companions::name_tensor(std::string_view name, const HostTensor& tensor, std::uint64_t step) {
  const OpName& parameter = names_.parameter(name);
  bool is_new = false;
  NamedTensors::Named& named = named_tensors_.name(parameter, tensor, step, is_new);
  named.placement = tensor.placement != nullptr ? names_.placement(tensor.placement) : 0;
  any_is_placed_ = any_is_placed_ || named.placement != 0;
  named.writer = tensor.writer;
  named.settled = tensor.settled;
  any_is_written_ = any_is_written_ || named.writer != 0;
  if (!is_new) return;
  named.wanted = records_parameter(parameter.op_name);
  named.by_name = emits_ && selector_.names_parameter(parameter.op_name);
}

// The host says it of the arguments of a distributed tensor's operators; others read its part by itself.
std::uint32_t Companions::placement_of(const HostTensor& tensor) {
  if (tensor.placement != nullptr) return names_.placement(tensor.placement);
  if (!any_is_placed_) return 0;
  const NamedTensors::Named* named = named_tensors_.find(tensor);
  if (named == nullptr || named->placement == 0) return 0;
  const bool is_whole = named->data == tensor.view.data && std::ranges::equal(named->shape.values(), tensor.view.shape);
  return is_whole ? named->placement : 0;
}

bool Companions::is_of_optimizer(const Op& op) const { return sites_.at(op.record.site).phase == Phase::optimizer; }

// Every view of the whole: ranks that have one tensor make the same views of it.
std::uint32_t Companions::writer_of(const Op& op, const HostTensor& tensor) {
  if (tensor.writer != 0) return tensor.writer;
  if (!any_is_written_) return 0;
  const NamedTensors::Named* named = named_tensors_.find(tensor);
  if (named == nullptr || named->writer == 0 || named->data != tensor.view.data) return 0;
  if (named->extent_bytes != extent_bytes(tensor.view)) return 0;
  return named->settled && !is_of_optimizer(op) ? 0 : named->writer;
}

void Companions::find(const Op& op, const HostTensor& tensor, TensorRecord& record, Companion& out) {
  if (op.depth != Depth::full) {  // a later reader brings them
    const NamedTensors::Named* named = named_tensors_.find(tensor);
    if (named != nullptr) record.parameter = named->name->id;
    return;
  }
  const bool with_op =
      (op.wanted.any() && !op.wanted.excludes(true, record.slot)) || !selector_.parameters_follow_ops();
  find_parameter(op, tensor, with_op, record, out);
  if (record.parameter == 0) find_data(op, tensor, with_op, record, out);
}

// A list names parameters and data as the graph's nodes of the type Data.
bool Companions::names_parameter(const Op& op, const OpName& name) {
  return selector_.decide_parameter_by_name(name.op_name, sites_.at(op.record.site).scope);
}

bool Companions::is_being_filled(const HostTensor& tensor) const {
  return tensor.foreign && tensor.observed && cache_.is_unwritten(tensor.storage, key_of(tensor));
}

// Recorded once per step, as a whole, with the first op that reads a part of it.
void Companions::find_parameter(const Op& op, const HostTensor& tensor, bool with_op, TensorRecord& record,
                                Companion& out) {
  NamedTensors::Named* named = named_tensors_.find(tensor);
  if (named == nullptr) return;
  record.parameter = named->name->id;
  const std::uint64_t stamp = steps_[op.record.step.graph].stamp;
  if (named->recorded_stamp == stamp) return;
  const bool wanted = (with_op && named->wanted) | (named->by_name && names_parameter(op, *named->name));
  if (!wanted) return;
  const WholeTensor& whole = out.whole.emplace(*named, tensor);
  // A parameter that is being gathered: a later reader brings it.
  if (is_being_filled(whole.tensor())) {
    out.whole.reset();
    return;
  }
  named->recorded_stamp = stamp;
  // The name was given at the start of the step; memory that was resized since is another tensor.
  if (whole.is_inside_storage()) out.name = named->name;
  out.placement = named->placement;
  out.writer = named->settled && !is_of_optimizer(op) ? 0 : named->writer;
}

// Data that no op of the dump has written comes from outside.
void Companions::find_data(const Op& op, const HostTensor& tensor, bool with_op, TensorRecord& record, Companion& out) {
  if (tensor.storage == 0 || tensor.constant || cache_.is_written(tensor.storage) || is_being_filled(tensor)) return;
  const std::uint32_t graph = op.record.step.graph;
  NamedTensors::DataNumber* number =
      named_tensors_.data_number(tensor.storage, graph, steps_[graph].stamp, op.backward, has_constants_);
  if (number == nullptr) return;
  if (number->name == nullptr) {
    number->name = &names_.parameter(data_name(number->value));
    number->by_name = emits_ && selector_.names_parameter(number->name->op_name);
  }
  const OpName& name = *number->name;
  record.parameter = name.id;
  if (number->settled) return;
  const bool by_op = with_op && records_parameter(name.op_name);
  const bool by_name = number->by_name && names_parameter(op, name);  // both are asked: each marks its entry as matched
  const bool wanted = by_op || by_name;
  number->settled = wanted || (with_op && !number->by_name);
  if (!wanted) return;
  out.name = &name;
  out.in_constants = has_constants_;
}

}  // namespace sonde
