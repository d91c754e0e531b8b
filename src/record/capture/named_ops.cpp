#include "record/capture/named_ops.h"

namespace sonde {
namespace {

// No graph has a larger number: PerGraph would fill the memory up to it.
constexpr std::uint32_t kMostGraphs = 1 << 16;

}  // namespace

Result<NamedHostSettings> NamedOps::settings() {
  const SessionLock lock(run_.mutex());
  if (run_.limits_overhead()) {
    return Error{ErrorCode::invalid_argument,
                 "sonde_settings.max_overhead needs a host whose steps Sonde counts: PyTorch; leave it out"};
  }
  Result<NamedHostSettings> settings = run_.named_host().settings();
  if (settings) run_.apply(run_.clock().modules_exist());  // the other host's actions so far were not a step
  return settings;
}

bool NamedOps::wants_step(std::uint64_t step) {
  const SessionLock lock(run_.mutex());
  const bool chosen = run_.named_host().steps().wants(step);
  if (!chosen || run_.records_nothing() || run_.ops().found_enough()) return false;
  const Recorder* recorder = run_.ops().recorder();
  return recorder == nullptr || !recorder->error();
}

bool NamedOps::is_open_for(const NamedOp& named) {
  return !run_.failed() && named.step.graph < kMostGraphs && run_.open_recorder(Host::naming);
}

void NamedOps::enter_step(const NamedOp& named) {
  run_.apply(run_.named_host().steps().at(named.step), Host::naming);
  run_.ops().announce(named.step);
}

bool NamedOps::wants(const NamedOp& named) {
  const SessionLock lock(run_.mutex());
  return is_open_for(named) && run_.named_host().wants(run_.ops(), named, run_.info().rank);
}

std::uint32_t NamedOps::begin(const NamedOp& named, Op& op) {
  const SessionLock lock(run_.mutex());
  if (!is_open_for(named)) return 0;
  enter_step(named);
  return run_.named_host().begin(run_.ops(), named, run_.info().rank, op);
}

void NamedOps::parameter(const NamedOp& named, const HostTensor& tensor) {
  if (tensor.skip != nullptr) return;
  OpRecorder* ops = nullptr;
  const OpName* name = nullptr;
  {
    const SessionLock lock(run_.mutex());
    if (!is_open_for(named) || !run_.ops().tensors().companions().records_parameter(named.op_name)) return;
    enter_step(named);
    ops = &run_.ops();
    name = &ops->names().parameter(named.op_name);
  }
  ops->tensors().add_parameter(*name, named.step, tensor);
}

void NamedOps::end_step() {
  const SessionLock lock(run_.mutex());
  if (run_.ops().recorder() != nullptr && run_.owner() == Host::naming) {
    run_.apply(run_.named_host().steps().end(), Host::naming);
  }
}

}  // namespace sonde
