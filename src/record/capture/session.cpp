#include "record/capture/session.h"

#include <algorithm>
#include <utility>

#include "ground/base/text.h"
#include "ground/model/step_request.h"

namespace sonde {
namespace {

// "network-AlexNet/features/0-Conv2d" -> "network/features/0".
std::string without_classes(std::string_view scope) {
  std::string attributes;
  for (const std::string_view level : split(scope, '/')) {
    attributes.append(attributes.empty() ? "" : "/").append(level.substr(0, level.rfind('-')));
  }
  return attributes;
}

}  // namespace

Session::Session(Plan plan) : run_(std::move(plan)) {
  if (run_.plan().saved_data == SavedData::summary) summary_.emplace(run_.plan());
}

std::string Session::stop() {
  if (!summary_) return run_.stop();
  std::string failure;
  if (failed()) take_failure(failure);
  static_cast<void>(run_.stop());  // it has recorded no operator
  return summary_->stop(failure);
}

void Session::set_run_info(RunInfo info) {
  if (summary_) summary_->set_place(info.rank, info.device);
  const SessionLock lock(run_.mutex());
  run_.set_info(std::move(info));
}

void Session::fail(std::string message) {
  const SessionLock lock(run_.mutex());
  run_.note_failure({ErrorCode::io, std::move(message)});
}

bool Session::take_failure(std::string& message) {
  const SessionLock lock(run_.mutex());
  return run_.take_failure(message);
}

// --- clock ---

sonde_capture Session::root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive) {
  const SessionLock lock(run_.mutex());
  run_.apply(run_.clock().root_forward(has_parameters, grad_enabled, optimizer_alive));
  // A directory that cannot be written is reported before the first chosen step.
  if (has_parameters) run_.open_recorder(Host::clocked);
  return run_.answer();
}

sonde_capture Session::quiet_forward(const QuietForward& forward) {
  const SessionLock lock(run_.mutex());
  run_.open_recorder(Host::clocked);
  run_.apply(run_.clock().quiet_forward(forward));
  return run_.answer();
}

sonde_capture Session::optimizer_end() {
  const SessionLock lock(run_.mutex());
  run_.apply(run_.clock().optimizer_end());
  return run_.answer();
}

sonde_capture Session::scaler_update() {
  const SessionLock lock(run_.mutex());
  run_.apply(run_.clock().scaler_update());
  return run_.answer();
}

sonde_capture Session::manual_step() {
  const SessionLock lock(run_.mutex());
  run_.settle();
  run_.apply(run_.clock().manual_step());
  return run_.answer();
}

sonde_capture Session::step_over() {
  const SessionLock lock(run_.mutex());
  run_.apply(run_.clock().step_over());
  return run_.answer();
}

sonde_capture Session::autograd_started() {
  const SessionLock lock(run_.mutex());
  run_.apply(run_.clock().autograd_started());
  run_.open_recorder(Host::clocked);
  return run_.answer();
}

// So many operators ran that the kind of program must be decided.
sonde_capture Session::modules_exist(bool with_parameters) {
  const SessionLock lock(run_.mutex());
  if (with_parameters) {
    run_.apply(run_.clock().modules_exist());
  } else {
    run_.settle();
  }
  return run_.answer();
}

sonde_capture Session::capture() {
  const SessionLock lock(run_.mutex());
  if (!std::exchange(started_, true)) run_.apply(run_.clock().start());
  return run_.answer();
}

sonde_capture Session::set_recording(bool on) {
  const SessionLock lock(run_.mutex());
  run_.named_host().steps().set_recording(on);
  run_.apply(run_.clock().set_recording(on));
  return run_.answer();
}

sonde_capture Session::set_step(std::uint64_t step) {
  const SessionLock lock(run_.mutex());
  run_.clock().set_step(step);
  return run_.answer();
}

// --- names and memory of the program ---

std::uint32_t Session::site(Site site) {
  const bool of_modules = site.phase == Phase::forward || site.phase == Phase::recompute;
  if (of_modules && !plan().sonde.class_names_in_scope) site.scope = without_classes(site.scope);
  const SessionLock lock(run_.mutex());
  return run_.sites().intern(std::move(site));
}

void Session::flag_type(std::string_view type, bool enabled) {
  const SessionLock lock(run_.mutex());
  run_.sites().flag_type(type, enabled);
}

void Session::flag_scope(std::string_view scope, std::string_view type, bool enabled) {
  const SessionLock lock(run_.mutex());
  run_.named_host().flag_scope(scope, type, enabled);
}

void Session::source_text(std::string file, std::string text) {
  const SessionLock lock(run_.mutex());
  run_.add_source_text({std::move(file), std::move(text)});
}

void Session::name_tensor(std::string_view name, const HostTensor& tensor) {
  if (tensor.skip != nullptr || tensor.storage == 0) return;
  const SessionLock lock(run_.mutex());
  if (run_.ops().recorder() != nullptr && !run_.failed()) run_.ops().name_tensor(name, tensor);
}

void Session::step_requests(std::vector<StepRequest> requests) {
  const SessionLock lock(run_.mutex());
  const std::vector<std::string>& asked = plan().sonde.requests;
  run_.clock().next_is_asked_for(std::ranges::any_of(requests, [&](const StepRequest& one) {
    return std::ranges::any_of(asked, [&](const std::string& id) { return is_meant(one.request, id); });
  }));
  run_.ops().set_requests(std::move(requests));
}

bool Session::is_common_step(sonde_graph graph) {
  const SessionLock lock(run_.mutex());
  const StepClock& clock = run_.clock();
  if (graph == SONDE_GRAPH_EVALUATION) return false;
  if (graph == SONDE_GRAPH_TRAINING) return clock.is_common(SONDE_GRAPH_TRAINING);
  return clock.is_common(clock.graph_outside_modules(graph == SONDE_GRAPH_OUTSIDE_GRAD));
}

void Session::storage_changed(std::uint64_t storage) {
  const SessionLock lock(run_.mutex());
  run_.ops().tensors().storage_changed(storage);
}

void Session::storage_allocated(const HostTensor& tensor, std::uint64_t kept) {
  const SessionLock lock(run_.mutex());
  run_.ops().tensors().allocated(tensor, kept);
}

void Session::storages_freed(std::span<const std::uint64_t> storages) {
  const SessionLock lock(run_.mutex());
  run_.ops().tensors().storages_freed(storages);
}

}  // namespace sonde
