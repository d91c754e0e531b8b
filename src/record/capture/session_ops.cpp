#include "record/capture/session_ops.h"

#include "record/capture/devices.h"
#include "record/capture/modes/overflow.h"

namespace sonde {

std::uint32_t SessionOps::begin(Op& op, std::uint32_t site_id, sonde_graph graph, std::uint64_t attributes) {
  const SessionLock lock(run_.mutex());
  const Site& site = run_.sites().at(site_id);
  if (run_.failed() || site.id == 0) return 0;
  const std::optional<StepId> step = run_.step_of_op(site, graph);
  if (!step) return 0;
  const std::uint32_t wanted = run_.ops().begin(op, site, *step, attributes);
  return wanted | (run_.is_undecided() ? SONDE_WANT_MODULES : 0U);
}

void SessionOps::check_output(Op& op, const HostTensor& output) {
  if (!run_.plan().overflow_only() || op.record.overflowed || !OverflowCheck::can_look(output)) return;
  OpRecorder& ops = *op.recorder;
  if (output.handle != nullptr) {
    const SessionLock lock(run_.mutex());
    if (!ops.found_enough() && is_current(op)) ops.gates().undecided(op);
    return;
  }
  const bool takes_statistics = !op.before.empty() && !op.before.front().image;
  OverflowCheck check(ops.tensors().rules(), output, takes_statistics);
  bool looks = false;
  {
    const SessionLock lock(run_.mutex());
    if (ops.found_enough()) return;
    looks = check.look_up(ops.tensors().cache());
  }
  if (looks) check.look(*ops.recorder());
  if (!looks && check.is_finite()) return;
  const SessionLock lock(run_.mutex());
  check.publish(ops.tensors().cache());
  if (check.is_finite() || ops.found_enough() || !is_current(op)) return;
  run_.settle();  // whatever the program is, this must be recorded
  ops.gates().overflowed(op);
}

void SessionOps::output(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  if (op.deferred) check_output(op, tensor);  // for a collective, which could not be checked before
  op.recorder->output(op, slot, tensor);
}

void SessionOps::failed(Op& op) {
  if (!run_.plan().exception_only()) return;
  drain_devices();  // records that wait for a device belong to the steps before
  const SessionLock lock(run_.mutex());
  if (!is_current(op)) return;
  run_.settle();
  op.recorder->gates().threw(op);
}

// A tensor of a device has arrived; records may have waited for it.
void SessionOps::device_read_done() {
  const SessionLock lock(run_.mutex());
  const std::uint64_t found = run_.ops().found().count;
  run_.ops().gates().advance();
  if (run_.ops().found().count != found) run_.settle();
}

bool SessionOps::records_graph(sonde_graph graph) {
  const SessionLock lock(run_.mutex());
  return !run_.records_nothing() && run_.step_of_op(Site{}, graph).has_value();
}

std::uint32_t SessionOps::site_wants(std::uint32_t site, std::uint32_t count) {
  const SessionLock lock(run_.mutex());
  return run_.ops().forecast().wants(run_.sites().at(site), count);
}

bool SessionOps::is_replaced(std::uint32_t site, std::string_view by) {
  const SessionLock lock(run_.mutex());
  return run_.ops().forecast().is_replaced(run_.sites().at(site), by);
}

void SessionOps::result_at(std::uint64_t maker, std::uint32_t output, const HostTensor& tensor) {
  const SessionLock lock(run_.mutex());
  run_.ops().tensors().result_at(maker, output, tensor);
}

void SessionOps::forget(std::span<const std::uint64_t> sequences) {
  const SessionLock lock(run_.mutex());
  run_.ops().tensors().forget_kept(sequences);
}

}  // namespace sonde
