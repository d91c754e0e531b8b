#include "record/capture/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "dump/journal/unrecorded.h"
#include "ground/base/clock.h"
#include "ground/base/host_heap.h"
#include "record/capture/devices.h"
#include "record/capture/modes/overflow.h"
#include "record/capture/summary.h"

namespace sonde {
namespace {

// No graph has a larger number: PerGraph would fill the memory up to it.
constexpr std::uint32_t kMostGraphs = 1 << 16;

// "network-AlexNet/features/0-Conv2d" -> "network/features/0".
std::string without_classes(std::string_view scope) {
  std::string attributes;
  while (!scope.empty()) {
    const std::string_view level = scope.substr(0, scope.find('/'));
    scope.remove_prefix(std::min(level.size() + 1, scope.size()));
    attributes.append(attributes.empty() ? "" : "/").append(level.substr(0, level.rfind('-')));
  }
  return attributes;
}

}  // namespace

Session::Session(Plan plan)
    : plan_(std::move(plan)),
      clock_(plan_.sonde.step, plan_.iteration, plan_.first_step()),
      named_host_(plan_, sites_),
      ops_(std::make_unique<OpRecorder>(plan_, sites_, lock_)) {
  limit_overhead();
}

void Session::limit_overhead() {
  if (plan_.sonde.max_overhead == 0) return;
  overhead_.emplace(plan_.sonde.max_overhead, plan_.wants_tensors());
  ops_->limit(&*overhead_);
}

void Session::set_run_info(RunInfo info) {
  const std::lock_guard guard(lock_);
  if (ops_->recorder() != nullptr && !clock_.provisional()) return;  // the dump has its place already
  run_info_ = std::move(info);
  excluded_ = !plan_.supports_device(run_info_.device);
}

void Session::fail(std::string message) {
  const std::lock_guard guard(lock_);
  note_failure({ErrorCode::io, std::move(message)});
}

// Only the first one is reported.
void Session::note_failure(const Error& error) {
  if (failed_) return;
  failure_ = error.message;
  failed_ = true;
}

bool Session::take_failure(std::string& message) {
  const std::lock_guard guard(lock_);
  if (const Recorder* recorder = ops_->recorder(); recorder != nullptr && !failed_) {
    if (const auto error = recorder->error()) note_failure(*error);
  }
  if (!failed_ || failure_reported_) return false;
  failure_reported_ = true;
  message = failure_;
  return true;
}

// --- clock -----------------------------------------------------------------------------------------------------------

bool Session::records_nothing() const { return failed_ || excluded_ || !plan_.nothing.empty(); }

// Whether there is a recorder, for this host.
bool Session::open_recorder(Host host) {
  // The other host's actions so far were not a step.
  const bool comes_first = host == Host::naming && owner_ != host && clock_.provisional();
  if (ops_->recorder() != nullptr && comes_first) apply(clock_.modules_exist());
  if (ops_->recorder() != nullptr) {
    other_host_ = other_host_ || host != owner_;
    return host == owner_;
  }
  if (records_nothing()) return false;
  run_info_.host_graphs = host == Host::naming;
  auto opened = Recorder::open(plan_, run_info_, host == Host::clocked && clock_.provisional());
  if (!opened) {
    note_failure(opened.error());
    return false;
  }
  keep_freed_memory();
  ops_->open(std::move(*opened));
  owner_ = host;
  announce_modes();
  for (const SourceText& text : source_texts_) ops_->recorder()->define(text);
  if (!clock_.provisional()) source_texts_.clear();
  return true;
}

void Session::announce_modes() {
  if (run_info_.host.find(kPynativeHost) != std::string::npos) ops_->recorder()->note(std::string(kPynativeNote));
  if (overhead_) {
    ops_->recorder()->note(fmt::format("{} {}: steps and operators are left out; a tensor that was not read says so",
                                       kOverheadNote, plan_.sonde.max_overhead));
  }
  if (plan_.sonde.ring == 0) return;
  if (!ring_signals_) {
    ring_signals_ = std::make_unique<RingSignals>(plan_.sonde.ring_signal, [this](const std::string& why) {
      try {
        write_ring(why);
      } catch (const std::exception& error) {
        fail(std::string("cannot write the ring: ") + error.what());
      }
    });
  }
  ops_->recorder()->note(ring_line(plan_, ring_signals_->taken()));
}

std::uint64_t Session::write_ring(const std::string& why) {
  drain_devices();
  Recorder* recorder = nullptr;
  {
    const std::lock_guard guard(lock_);
    if (plan_.sonde.ring == 0 || failed_) return 0;
    settle();
    recorder = ops_->recorder();
  }
  return recorder != nullptr ? recorder->write_ring(why) : 0;
}

// The records so far were the preamble of a program with modules: they are dropped. Facts about the host's program
// (sites, flags, source texts) are kept.
void Session::begin_again() {
  ops_provisional_ = 0;
  asked_for_modules_ = false;
  ops_->discard();
  taken_back_.push_back(std::exchange(ops_, std::make_unique<OpRecorder>(plan_, sites_, lock_)));
  limit_overhead();
}

// The provisional steps go into the dump.
void Session::settle() {
  if (!clock_.provisional()) return;
  clock_.settle();
  if (ops_->recorder() == nullptr) return;
  source_texts_.clear();
  if (const Status released = ops_->recorder()->release(plan_, run_info_); !released) note_failure(released.error());
}

// Whether max_overhead leaves out the step that begins or ends.
bool Session::leaves_out(const StepChange& change) {
  const std::uint32_t graph = change.step.graph;
  if (!change.began) return !overhead_->end_step(graph);
  const bool undecided = clock_.provisional() || clock_.discovering() || change.resumed;
  return !overhead_->begin_step(graph, {now_ns(), ops_->recorder()->writer_nanoseconds()}, undecided);
}

void Session::apply(const std::vector<StepChange>& changes, Host host) {
  for (const StepChange& change : changes) {
    if (change.forgotten) {
      begin_again();
      continue;
    }
    if (!open_recorder(host)) return;
    if (overhead_ && leaves_out(change)) continue;
    if (change.began) {
      ops_->begin_step(change, !clock_.provisional());
      continue;
    }
    ops_->end_step(change.step);
    // Evaluations within a training step do not age what it knows.
    const bool within = change.step.graph != SONDE_GRAPH_TRAINING && clock_.recording(SONDE_GRAPH_TRAINING);
    if (!within) ops_->cache().end_step();
  }
}

sonde_capture Session::answer() {
  if (plan_.sonde.stop_after && clock_.is_over()) {
    ops_->cache().clear();
    return SONDE_CAPTURE_OVER;
  }
  if (records_nothing()) return SONDE_CAPTURE_OFF;
  const Recorder* recorder = ops_->recorder();
  if (recorder != nullptr && (owner_ == Host::naming || recorder->error())) return SONDE_CAPTURE_OFF;
  const bool left_out = overhead_ && !clock_.discovering() && !overhead_->is_recording_any();
  if (clock_.needs_operators() && !left_out && !ops_->found_enough()) return SONDE_CAPTURE_ON;
  // Operators will run unobserved from here on: knowledge about the memory becomes invalid.
  ops_->cache().clear();
  return SONDE_CAPTURE_OFF;
}

sonde_capture Session::root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive) {
  const std::lock_guard guard(lock_);
  apply(clock_.root_forward(has_parameters, grad_enabled, optimizer_alive));
  // A directory that cannot be written is reported before the first chosen step.
  if (has_parameters) open_recorder(Host::clocked);
  return answer();
}

sonde_capture Session::quiet_forward(const QuietForward& forward) {
  const std::lock_guard guard(lock_);
  open_recorder(Host::clocked);
  apply(clock_.quiet_forward(forward));
  return answer();
}

sonde_capture Session::optimizer_end() {
  const std::lock_guard guard(lock_);
  apply(clock_.optimizer_end());
  return answer();
}

sonde_capture Session::scaler_update() {
  const std::lock_guard guard(lock_);
  apply(clock_.scaler_update());
  return answer();
}

sonde_capture Session::manual_step() {
  const std::lock_guard guard(lock_);
  settle();
  apply(clock_.manual_step());
  return answer();
}

sonde_capture Session::autograd_started() {
  const std::lock_guard guard(lock_);
  apply(clock_.autograd_started());
  open_recorder(Host::clocked);
  return answer();
}

// So many operators ran that the kind of program must be decided.
sonde_capture Session::modules_exist(bool with_parameters) {
  const std::lock_guard guard(lock_);
  if (with_parameters) {
    apply(clock_.modules_exist());
  } else {
    settle();
  }
  return answer();
}

sonde_capture Session::capture() {
  const std::lock_guard guard(lock_);
  if (!std::exchange(started_, true)) apply(clock_.start());
  return answer();
}

sonde_capture Session::set_recording(bool on) {
  const std::lock_guard guard(lock_);
  named_host_.steps().set_recording(on);
  apply(clock_.set_recording(on));
  return answer();
}

sonde_capture Session::set_step(std::uint64_t step) {
  const std::lock_guard guard(lock_);
  clock_.set_step(step);
  return answer();
}

// --- names and memory of the program ---------------------------------------------------------------------------------

std::uint32_t Session::site(Site site) {
  const bool of_modules = site.phase == Phase::forward || site.phase == Phase::recompute;
  if (of_modules && !plan_.sonde.class_names_in_scope) site.scope = without_classes(site.scope);
  const std::lock_guard guard(lock_);
  return sites_.intern(std::move(site));
}

void Session::flag_type(std::string_view type, bool enabled) {
  const std::lock_guard guard(lock_);
  sites_.flag_type(type, enabled);
}

void Session::flag_scope(std::string_view scope, std::string_view type, bool enabled) {
  const std::lock_guard guard(lock_);
  named_host_.flag_scope(scope, type, enabled);
}

void Session::source_text(std::string file, std::string text) {
  const std::lock_guard guard(lock_);
  source_texts_.push_back({std::move(file), std::move(text)});
  Recorder* recorder = ops_->recorder();
  if (recorder != nullptr) recorder->define(source_texts_.back());
  if (recorder != nullptr && !clock_.provisional()) source_texts_.clear();
}

void Session::name_tensor(std::string_view name, const HostTensor& tensor) {
  if (tensor.skip != nullptr || tensor.storage == 0) return;
  const std::lock_guard guard(lock_);
  if (ops_->recorder() != nullptr && !failed_) ops_->name_tensor(name, tensor);
}

void Session::storage_changed(std::uint64_t storage) {
  const std::lock_guard guard(lock_);
  ops_->storage_changed(storage);
}

void Session::storages_freed(std::span<const std::uint64_t> storages) {
  const std::lock_guard guard(lock_);
  ops_->storages_freed(storages);
}

// --- ops -------------------------------------------------------------------------------------------------------------

// Many ops have run, or many bytes wait, and it is undecided whether they are a preamble. Asked once; a host that does
// not know decides that they are steps.
bool Session::is_undecided() {
  constexpr std::uint64_t kMostOps = 1000;
  if (!clock_.provisional() || plan_.overflow_only() || plan_.exception_only()) return false;
  const std::uint64_t most_bytes = plan_.sonde.budget_bytes / 4;
  if (++ops_provisional_ <= kMostOps && ops_->recorder()->held_bytes() <= most_bytes) return false;
  if (!std::exchange(asked_for_modules_, true)) return true;
  settle();
  return false;
}

// The number of the graph that an op here belongs to.
std::uint32_t Session::graph_of(const Site& site, sonde_graph graph) {
  std::uint32_t number = SONDE_GRAPH_TRAINING;
  if (graph == SONDE_GRAPH_EVALUATION) {
    number = clock_.quiet_graph();
  } else if (graph != SONDE_GRAPH_TRAINING) {
    number = clock_.graph_outside_modules(graph == SONDE_GRAPH_OUTSIDE_GRAD);
  } else if (site.phase == Phase::backward) {
    clock_.backward_ran();
  }
  return clock_.manual() ? std::uint32_t{SONDE_GRAPH_TRAINING} : number;
}

std::uint32_t Session::op_begin(Op& op, std::uint32_t site_id, sonde_graph graph, std::uint64_t attributes) {
  const std::lock_guard guard(lock_);
  const Site& site = sites_.at(site_id);
  if (failed_ || site.id == 0) return 0;
  const std::uint32_t number = graph_of(site, graph);
  if (!named_host_.exists()) apply(clock_.operator_seen());
  const auto step = clock_.recording(number);
  if (!step || ops_->recorder() == nullptr || owner_ == Host::naming) return 0;
  if (overhead_ && !overhead_->is_recording(number)) return 0;
  const std::uint32_t wanted = ops_->begin(op, site, *step, attributes);
  return wanted | (is_undecided() ? SONDE_WANT_MODULES : 0U);
}

void Session::op_check_output(Op& op, const HostTensor& output) {
  if (!plan_.overflow_only() || op.record.overflowed || !OverflowCheck::can_look(output)) return;
  OpRecorder& ops = *op.recorder;
  if (output.handle != nullptr) {
    const std::lock_guard guard(lock_);
    if (!ops.found_enough() && is_current(op)) ops.undecided(op);
    return;
  }
  OverflowCheck check(ops.rules(), output, ops.takes_statistics_before(op));
  bool looks = false;
  {
    const std::lock_guard guard(lock_);
    if (ops.found_enough()) return;
    looks = check.look_up(ops.cache());
  }
  if (looks) check.look(*ops.recorder());
  if (!looks && check.is_finite()) return;
  const std::lock_guard guard(lock_);
  check.publish(ops.cache());
  if (check.is_finite() || ops.found_enough() || !is_current(op)) return;
  settle();  // whatever the program is, this must be recorded
  ops.overflowed(op);
}

void Session::op_output(Op& op, std::uint32_t slot, const HostTensor& tensor) {
  if (op.deferred) op_check_output(op, tensor);  // for a collective, which could not be checked before
  op.recorder->output(op, slot, tensor);
}

void Session::op_failed(Op& op) {
  if (!plan_.exception_only()) return;
  drain_devices();  // records that wait for a device belong to the steps before
  const std::lock_guard guard(lock_);
  if (!is_current(op)) return;
  settle();
  op.recorder->threw(op);
}

// A tensor of a device has arrived; records may have waited for it.
void Session::device_read_done() {
  const std::lock_guard guard(lock_);
  const std::uint64_t found = ops_->found().count;
  ops_->advance();
  if (ops_->found().count != found) settle();
}

bool Session::records_graph(sonde_graph graph) {
  const std::lock_guard guard(lock_);
  if (records_nothing()) return false;
  const std::uint32_t number = graph_of(Site{}, graph);
  if (!named_host_.exists()) apply(clock_.operator_seen());
  if (!clock_.recording(number) || ops_->recorder() == nullptr || owner_ == Host::naming) return false;
  return !overhead_ || overhead_->is_recording(number);
}

std::uint32_t Session::site_wants(std::uint32_t site, std::uint32_t count) {
  const std::lock_guard guard(lock_);
  return ops_->site_wants(sites_.at(site), count);
}

bool Session::op_replaced(std::uint32_t site, std::string_view by) {
  const std::lock_guard guard(lock_);
  return ops_->op_replaced(sites_.at(site), by);
}

void Session::op_result_at(std::uint64_t maker, std::uint32_t output, const HostTensor& tensor) {
  const std::lock_guard guard(lock_);
  ops_->result_at(maker, output, tensor);
}

void Session::ops_forgotten(std::span<const std::uint64_t> sequences) {
  const std::lock_guard guard(lock_);
  ops_->forget_kept(sequences);
}

// --- hosts that name their operators ---------------------------------------------------------------------------------

Result<NamedHostSettings> Session::named_host_settings() {
  const std::lock_guard guard(lock_);
  if (overhead_) {
    return Error{ErrorCode::invalid_argument,
                 "sonde_settings.max_overhead needs a host whose steps Sonde counts: PyTorch; leave it out"};
  }
  Result<NamedHostSettings> settings = named_host_.settings();
  if (settings) apply(clock_.modules_exist());  // the other host's actions so far were not a step
  return settings;
}

bool Session::wants_step(std::uint64_t step) {
  const std::lock_guard guard(lock_);
  const bool chosen = named_host_.steps().wants(step);
  if (!chosen || records_nothing() || ops_->found_enough()) return false;
  return ops_->recorder() == nullptr || !ops_->recorder()->error();
}

bool Session::is_open_for(const NamedOp& named) {
  return !failed_ && named.step.graph < kMostGraphs && open_recorder(Host::naming);
}

bool Session::wants_named(const NamedOp& named) {
  const std::lock_guard guard(lock_);
  return is_open_for(named) && named_host_.wants(*ops_, named, run_info_.rank);
}

std::uint32_t Session::named_op_begin(const NamedOp& named, Op& op) {
  const std::lock_guard guard(lock_);
  if (!is_open_for(named)) return 0;
  apply(named_host_.steps().at(named.step), Host::naming);
  ops_->announce(named.step);
  return named_host_.begin(*ops_, named, run_info_.rank, op);
}

void Session::named_parameter(const NamedOp& named, const HostTensor& tensor) {
  if (tensor.skip != nullptr) return;
  OpRecorder* ops = nullptr;
  const OpName* name = nullptr;
  {
    const std::lock_guard guard(lock_);
    if (!is_open_for(named) || !ops_->records_parameter(named.op_name)) return;
    apply(named_host_.steps().at(named.step), Host::naming);
    ops_->announce(named.step);
    ops = ops_.get();
    name = &ops->names().parameter(named.op_name);
  }
  ops->add_parameter(*name, named.step, tensor);
}

void Session::named_step_end() {
  const std::lock_guard guard(lock_);
  if (ops_->recorder() != nullptr && owner_ == Host::naming) apply(named_host_.steps().end(), Host::naming);
}

// --- the end ---------------------------------------------------------------------------------------------------------

void Session::abandon() {
  failed_ = true;
  failure_reported_ = true;
  if (ring_signals_) ring_signals_->abandon();
  if (ops_->recorder() != nullptr) ops_->recorder()->abandon();
}

std::string Session::stop() {
  drain_devices();
  std::unique_lock guard(lock_);
  ops_->advance(true);
  forget_expected();
  settle();
  if (ops_->recorder() != nullptr) {
    apply(owner_ == Host::naming ? named_host_.steps().end() : clock_.stop(), owner_);
    ops_->buffer().skip_dropped();
    if (overhead_) ops_->recorder()->note(overhead_->report());
  }
  Recorder* recorder = ops_->recorder();
  guard.unlock();  // ops of other threads continue while the writer finishes
  ring_signals_.reset();
  Totals totals;
  if (recorder != nullptr) totals = recorder->finish();
  guard.lock();
  if (recorder != nullptr) {
    if (const auto error = recorder->error()) note_failure(*error);
  }
  const bool named = owner_ == Host::naming && ops_->found().count > 0;
  SessionEnd end{.plan = plan_,
                 .run = run_info_,
                 .clock = clock_,
                 .named_host = named_host_,
                 .ops = *ops_,
                 .totals = totals,
                 .failure = failed_ && !failure_reported_ ? failure_ : "",
                 .found_line = named ? named_host_.line_in_graph(ops_->found(), run_info_.rank) : "",
                 .failed = failed_,
                 .excluded = excluded_,
                 .named_owner = owner_ == Host::naming,
                 .other_host = other_host_};
  failure_reported_ = true;
  const std::string line = closing_line(end);
  // An ended session is kept, for ops of other threads that are still inside it. They point only to names.
  ops_->shrink();
  sites_.clear();
  named_host_.shrink();
  return line;
}

}  // namespace sonde
