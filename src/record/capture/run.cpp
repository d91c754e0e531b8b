#include "record/capture/run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <string_view>
#include <utility>

#include "dump/journal/unrecorded.h"
#include "ground/base/clock.h"
#include "ground/base/host_heap.h"
#include "ground/base/parse_number.h"
#include "record/capture/devices.h"
#include "record/capture/summary.h"
#include "record/writer/run_directory.h"

namespace sonde {
namespace {

// The local ranks of each machine are counted by its launcher; without one they are not more than all ranks.
bool records_all_ranks(const Plan& plan, const RunInfo& info) {
  std::uint64_t local = info.world_size, counted = 0;
  const char* text = std::getenv("LOCAL_WORLD_SIZE");
  if (text != nullptr && parse_number(std::string_view(text), counted)) local = std::min(local, counted);
  for (std::uint64_t device = 0; device < local; ++device) {
    if (!plan.supports_device(device)) return false;
  }
  return true;
}

}  // namespace

Run::Run(Plan plan)
    : plan_(std::move(plan)),
      clock_(plan_.sonde.step, plan_.iteration, plan_.first_step(), !plan_.sonde.requests.empty()),
      named_host_(plan_, sites_),
      ops_(std::make_unique<OpRecorder>(plan_, sites_, mutex_)) {
  limit_overhead();
}

void Run::limit_overhead() {
  if (plan_.sonde.max_overhead == 0) return;
  overhead_.emplace(plan_.sonde.max_overhead, plan_.wants_tensors());
  ops_->limit(&*overhead_);
}

void Run::set_info(RunInfo info) {
  if (ops_->recorder() != nullptr && !clock_.provisional()) return;  // the dump has its place already
  info_ = std::move(info);
  excluded_ = !plan_.supports_device(info_.device);
  share_tensors();
}

// Only where the plan records every rank: what one leaves to another must be written there.
void Run::share_tensors() {
  if (plan_.sonde.replicas != Replicas::first || info_.world_size < 2) return;
  if (records_all_ranks(plan_, info_)) ops_->tensors().share(info_.rank);
}

void Run::note_failure(const Error& error) {
  if (failed_) return;
  failure_ = error.message;
  failed_ = true;
}

bool Run::take_failure(std::string& message) {
  if (const Recorder* recorder = ops_->recorder(); recorder != nullptr && !failed_) {
    if (const auto error = recorder->error()) note_failure(*error);
  }
  if (!failed_ || failure_reported_) return false;
  failure_reported_ = true;
  message = failure_;
  return true;
}

bool Run::records_nothing() const {
  return failed_ || excluded_ || !plan_.nothing.empty() || plan_.saved_data == SavedData::summary;
}

bool Run::open_recorder(Host host) {
  // The other host's actions so far were not a step.
  const bool comes_first = host == Host::naming && owner_ != host && clock_.provisional();
  if (ops_->recorder() != nullptr && comes_first) apply(clock_.modules_exist());
  if (ops_->recorder() != nullptr) {
    other_host_ = other_host_ || host != owner_;
    return host == owner_;
  }
  if (records_nothing()) return false;
  info_.host_graphs = host == Host::naming;
  auto opened = Recorder::open(plan_, info_, host == Host::clocked && clock_.provisional());
  if (!opened) {
    note_failure(opened.error());
    return false;
  }
  keep_freed_memory();
  ops_->open(std::move(*opened));
  share_tensors();
  owner_ = host;
  announce_modes();
  for (const SourceText& text : source_texts_) ops_->recorder()->define(text);
  if (!clock_.provisional()) source_texts_.clear();
  return true;
}

void Run::announce_modes() {
  if (info_.host.find(kPynativeHost) != std::string::npos) ops_->recorder()->note(std::string(kPynativeNote));
  if (overhead_) {
    ops_->recorder()->note(fmt::format("{} {}: steps and operators are left out; a tensor that was not read says so",
                                       kOverheadNote, plan_.sonde.max_overhead));
  }
  if (plan_.sonde.replicas == Replicas::first && info_.world_size > 1 && !records_all_ranks(plan_, info_)) {
    ops_->recorder()->note("replicas \"first\" is not used: support_device leaves ranks out");
  }
  if (plan_.sonde.ring == 0) return;
  if (!ring_signals_) {
    ring_signals_ = std::make_unique<RingSignals>(plan_.sonde.ring_signal, [this](const std::string& why) {
      try {
        write_ring(why);
      } catch (const std::exception& error) {
        const SessionLock lock(mutex_);
        note_failure({ErrorCode::io, std::string("cannot write the ring: ") + error.what()});
      }
    });
  }
  ops_->recorder()->note(ring_line(plan_, ring_signals_->taken()));
}

std::uint64_t Run::write_ring(const std::string& why) {
  drain_devices();
  Recorder* recorder = nullptr;
  {
    const SessionLock lock(mutex_);
    if (plan_.sonde.ring == 0 || failed_) return 0;
    settle();
    recorder = ops_->recorder();
  }
  return recorder != nullptr ? recorder->write_ring(why) : 0;
}

// The records so far were the preamble of a program with modules: they are dropped. Facts about the host's program
// (sites, flags, source texts) are kept, and what FSDP allocates before the first operator of its forward.
void Run::begin_again() {
  ops_provisional_ = 0;
  asked_for_modules_ = false;
  auto again = std::make_unique<OpRecorder>(plan_, sites_, mutex_);
  again->tensors().take_allocated(ops_->tensors());
  ops_->discard();
  again->set_requests(ops_->take_requests());
  taken_back_.push_back(std::exchange(ops_, std::move(again)));
  limit_overhead();
}

void Run::settle() {
  if (!clock_.provisional()) return;
  clock_.settle();
  if (ops_->recorder() == nullptr) return;
  source_texts_.clear();
  if (const Status released = ops_->recorder()->release(plan_, info_); !released) note_failure(released.error());
}

// Whether max_overhead leaves out the step that begins or ends.
bool Run::leaves_out(const StepChange& change) {
  const std::uint32_t graph = change.step.graph;
  if (!change.began) return !overhead_->end_step(graph);
  const bool undecided = clock_.provisional() || clock_.discovering() || change.resumed;
  return !overhead_->begin_step(graph, {now_ns(), ops_->recorder()->writer_nanoseconds()}, undecided);
}

void Run::apply(const std::vector<StepChange>& changes, Host host) {
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
    if (!within) ops_->tensors().cache().end_step();
  }
}

sonde_capture Run::answer() {
  if (plan_.sonde.stop_after && clock_.is_over()) {
    ops_->tensors().cache().clear();
    return SONDE_CAPTURE_OVER;
  }
  if (records_nothing()) return SONDE_CAPTURE_OFF;
  const Recorder* recorder = ops_->recorder();
  if (recorder != nullptr && (owner_ == Host::naming || recorder->error())) return SONDE_CAPTURE_OFF;
  const bool left_out = overhead_ && !clock_.discovering() && !overhead_->is_recording_any();
  if (clock_.needs_operators() && !left_out && !ops_->found_enough()) return SONDE_CAPTURE_ON;
  // Operators will run unobserved from here on: knowledge about the memory becomes invalid.
  ops_->tensors().cache().clear();
  return SONDE_CAPTURE_OFF;
}

void Run::add_source_text(SourceText text) {
  source_texts_.push_back(std::move(text));
  Recorder* recorder = ops_->recorder();
  if (recorder != nullptr) recorder->define(source_texts_.back());
  if (recorder != nullptr && !clock_.provisional()) source_texts_.clear();
}

bool Run::is_undecided() {
  constexpr std::uint64_t kMostOps = 1000;
  if (!clock_.provisional() || plan_.searches()) return false;
  const std::uint64_t most_bytes = plan_.sonde.budget_bytes / 4;
  if (++ops_provisional_ <= kMostOps && ops_->recorder()->held_bytes() <= most_bytes) return false;
  if (!std::exchange(asked_for_modules_, true)) return true;
  settle();
  return false;
}

// The number of the graph that an op here belongs to.
std::uint32_t Run::graph_of(const Site& site, sonde_graph graph) {
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

std::optional<StepId> Run::step_of_op(const Site& site, sonde_graph graph) {
  const std::uint32_t number = graph_of(site, graph);
  if (!named_host_.exists()) apply(clock_.operator_seen());
  const std::optional<StepId> step = clock_.recording(number);
  if (!step || ops_->recorder() == nullptr || owner_ == Host::naming) return std::nullopt;
  if (overhead_ && !overhead_->is_recording(number)) return std::nullopt;
  return step;
}

// --- the end ---

// Without the lock: a thread that stayed in the parent may have it.
void Run::abandon() {
  failed_ = true;
  failure_reported_ = true;
  if (ring_signals_) ring_signals_->abandon();
  if (ops_->recorder() != nullptr) ops_->recorder()->abandon();
}

// A program that only starts the processes that train: its own operators prepared them, and do not count as steps.
void Run::leave_to_children() {
  const bool no_model = clock_.provisional() || clock_.steps_begun() + clock_.evaluations().begun == 0;
  if (!no_model || named_host_.exists() || !is_recorded_by_children(plan_.path)) return;
  children_record_ = true;
  apply(clock_.modules_exist());
}

// All steps have ended; their records go to the recorder, if there is one.
Recorder* Run::end_steps() {
  ops_->gates().advance(true);
  forget_expected();
  leave_to_children();
  settle();
  Recorder* recorder = ops_->recorder();
  if (recorder == nullptr) return nullptr;
  apply(owner_ == Host::naming ? named_host_.steps().end() : clock_.stop(), owner_);
  ops_->gates().skip_dropped();
  if (const std::uint64_t calls = clock_.calls_without_optimizer(); calls > 1) {
    recorder->note(
        fmt::format("an optimizer exists, but its step() was not called: {} calls of models are one step "
                    "(sonde_settings: \"step\": \"manual\", and sonde.step(), end steps)",
                    calls));
  }
  if (overhead_) recorder->note(overhead_->report());
  return recorder;
}

std::string Run::stop() {
  drain_devices();
  Recorder* recorder = nullptr;
  {
    const SessionLock lock(mutex_);
    recorder = end_steps();
  }
  ring_signals_.reset();  // ops of other threads continue while the writer finishes
  Totals totals;
  if (recorder != nullptr) totals = recorder->finish();
  const SessionLock lock(mutex_);
  return close(recorder, totals);
}

std::string Run::close(const Recorder* recorder, const Totals& totals) {
  if (recorder != nullptr) {
    if (const auto error = recorder->error()) note_failure(*error);
  }
  const bool named = owner_ == Host::naming && ops_->found().count > 0;
  SessionEnd end{.plan = plan_,
                 .run = info_,
                 .clock = clock_,
                 .named_host = named_host_,
                 .ops = *ops_,
                 .totals = totals,
                 .failure = failed_ && !failure_reported_ ? failure_ : "",
                 .found_line = named ? named_host_.line_in_graph(ops_->found(), info_.rank) : "",
                 .failed = failed_,
                 .excluded = excluded_,
                 .children_record = children_record_,
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
