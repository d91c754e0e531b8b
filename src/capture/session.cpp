// Session's life: it begins, follows the step clock, fails, ends. What it records: session_record.cpp.
#include "capture/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace sonde {

Session::Session(Plan plan)
    : plan_(std::move(plan)),
      selector_(std::make_unique<Selector>(plan_)),
      clock_(plan_.sonde.step, plan_.iteration, plan_.first_iteration()),
      host_steps_(plan_.iteration) {}

// What the writer still has points to names, which go before it would.
Session::~Session() {
  if (recorder_) recorder_->finish();
}

void Session::set_run_info(const sonde_run_info& info) {
  const std::lock_guard lock(mutex_);
  if (recorder_ && !clock_.provisional()) return;  // the dump has its place already
  run_info_.rank = info.rank;
  run_info_.world_size = std::max(info.world_size, 1u);
  run_info_.device = info.device;
  run_info_.host = info.host != nullptr ? info.host : "";
  run_info_.command = info.command != nullptr ? info.command : "";
  excluded_ = !plan_.supports_device(info.device);
}

void Session::fail(std::string message) {
  const std::lock_guard lock(mutex_);
  if (failed_) return;
  failure_ = std::move(message);
  failed_ = true;
}

bool Session::take_failure(std::string& message) {
  const std::lock_guard lock(mutex_);
  if (!failed_ && recorder_) {
    if (const auto error = recorder_->error()) {
      failure_ = error->message;
      failed_ = true;
    }
  }
  if (!failed_ || failure_told_) return false;
  failure_told_ = true;
  message = failure_;
  return true;
}

// --- clock -----------------------------------------------------------------------------------------------------------

// `named`: for a host that names its operators.
bool Session::ensure_recorder(bool named) {
  if (recorder_ && named && !named_owner_ && clock_.provisional()) apply(clock_.modules_exist());
  if (recorder_) {
    other_host_ = other_host_ || named != named_owner_;
    return named == named_owner_;
  }
  if (failed_ || excluded_ || !plan_.nothing.empty()) return false;
  run_info_.host_graphs = named;
  auto opened = Recorder::open(plan_, run_info_, !named && clock_.provisional());
  if (!opened) {
    failure_ = opened.error().message;
    failed_ = true;
    return false;
  }
  recorder_ = std::move(*opened);
  named_owner_ = named;
  tell_source_texts();
  return true;
}

void Session::tell_source_texts() {
  for (const SourceText& text : source_texts_) recorder_->define(text);
  if (!clock_.provisional()) source_texts_.clear();
}

// What was recorded so far was the preamble of a program with modules: nothing of it remains. What the host has said of
// its program (sites, flags, texts of sources) does.
void Session::begin_again() {
  ++beginning_;
  ops_provisional_ = 0;
  asked_for_modules_ = false;
  if (recorder_) {
    recorder_->discard();
    taken_back_.push_back({std::move(recorder_), std::move(names_)});
  }
  recorder_.reset();
  names_ = {};
  selector_ = std::make_unique<Selector>(plan_);
  identity_.clear();
  next_content_ = next_attributes_ = 1;
  nodes_ = 0;
  std::ranges::fill(site_keys_, kNoKey);
  site_defined_ = {};
  attribute_ids_ = {};
  name_keys_ = {};
  name_key_ids_ = {};
  entries_of_step_ = {};
  parameter_ids_ = {};
  named_ = {};
  data_names_ = {};
  constants_stamp_ = {};
  step_announced_ = {};
  held_ = {};
  held_attributes_ = {};
  dropped_ = {};
  steps_recorded_ = steps_seen_ = ops_seen_ = ops_found_ = ops_flagged_ = 0;
  first_found_.clear();
  watcher_ = {};
}

// What was provisional is for the dump.
void Session::settle() {
  if (!clock_.provisional()) return;
  clock_.settle();
  if (!recorder_) return;
  source_texts_.clear();
  if (const Status released = recorder_->release(plan_, run_info_); !released && !failed_) {
    failure_ = released.error().message;
    failed_ = true;
  }
}

void Session::push_step(bool began, StepId step) {
  Record record;
  record.kind = began ? RecordKind::step_begin : RecordKind::step_end;
  record.sequence = recorder_->next_sequence();
  record.step = step;
  record.timestamp_us = now_us();
  submit_locked(std::move(record));
}

// A step without ops is none: it is told with its first.
void Session::announce(StepId step) {
  if (!std::exchange(step_announced_[step.graph], true)) push_step(true, step);
}

void Session::apply(const std::vector<StepChange>& changes, bool named) {
  for (const StepChange& change : changes) {
    if (change.forgotten) {
      begin_again();
      continue;
    }
    if (!ensure_recorder(named)) return;
    bool& announced = step_announced_[change.step.graph];
    if (change.began) {
      announced = false;
      ++steps_recorded_;
      forget_unnamed();
      // The graph of the first step is wanted anyway.
      held_[change.step.graph].kept = looks_ && steps_recorded_ == 1 && !clock_.provisional();
      if (change.resumed) continue;  // switched off and on within: it goes on where it was
      step_stamp_[change.step.graph] = ++stamp_;
      selector_->begin_step(change.step.graph);
      entries_of_step_.clear();
      next_task_[change.step.graph] = 0;
      if (!recorder_->layout().has_constants()) data_names_[change.step.graph].clear();
      continue;
    }
    if (announced) {
      push_step(false, change.step);
      ++steps_seen_;
      if (holds_) end_held(change.step.graph);
    } else {
      --steps_recorded_;
    }
    if (change.step.graph == SONDE_GRAPH_TRAINING || !clock_.recording(SONDE_GRAPH_TRAINING)) {
      // Evaluations within a training step do not age what it knows.
      identity_.end_step();
    }
  }
}

// Gradients get new memory in every step: what was not named again lately has gone.
void Session::forget_unnamed() {
  for (auto& [storage, tensors] : named_) {
    std::erase_if(tensors, [&](const NamedTensor& named) { return named.named_in_step + 2 < steps_recorded_; });
  }
  std::erase_if(named_, [](const auto& item) { return item.second.empty(); });
}

bool Session::found_enough() const {
  return looks_ && plan_.overflow_number > 0 && ops_found_ >= plan_.overflow_number;
}

sonde_capture Session::answer() {
  if (plan_.sonde.stop_after && clock_.is_over()) {
    identity_.clear();
    return SONDE_CAPTURE_OVER;
  }
  if (failed_ || excluded_ || !plan_.nothing.empty()) return SONDE_CAPTURE_OFF;
  if (recorder_ && (named_owner_ || recorder_->error())) return SONDE_CAPTURE_OFF;
  const bool on = clock_.needs_operators() && !found_enough();
  // Operators will run unseen from here on: what is known of the memory then is worth nothing.
  if (!on) identity_.clear();
  return on ? SONDE_CAPTURE_ON : SONDE_CAPTURE_OFF;
}

sonde_capture Session::root_forward(bool has_parameters, bool grad_enabled, bool optimizer_alive) {
  const std::lock_guard lock(mutex_);
  apply(clock_.root_forward(has_parameters, grad_enabled, optimizer_alive));
  if (has_parameters) {
    seen_root_ = true;
    ensure_recorder();  // a directory that cannot be written is told before the first chosen step
  }
  return answer();
}

sonde_capture Session::quiet_forward(const QuietForward& forward) {
  const std::lock_guard lock(mutex_);
  seen_root_ = true;
  ensure_recorder();
  apply(clock_.quiet_forward(forward));
  return answer();
}

sonde_capture Session::optimizer_end() {
  const std::lock_guard lock(mutex_);
  apply(clock_.optimizer_end());
  return answer();
}

sonde_capture Session::scaler_update() {
  const std::lock_guard lock(mutex_);
  apply(clock_.scaler_update());
  return answer();
}

sonde_capture Session::manual_step() {
  const std::lock_guard lock(mutex_);
  settle();
  apply(clock_.manual_step());
  return answer();
}

sonde_capture Session::autograd_started() {
  const std::lock_guard lock(mutex_);
  apply(clock_.autograd_started());
  ensure_recorder();
  return answer();
}

// So many operators ran that it must be known what kind of program it is.
sonde_capture Session::modules_exist(bool with_parameters) {
  const std::lock_guard lock(mutex_);
  if (with_parameters) {
    apply(clock_.modules_exist());
  } else {
    settle();
  }
  return answer();
}

sonde_capture Session::capture() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(started_, true)) apply(clock_.start());
  return answer();
}

sonde_capture Session::set_recording(bool on) {
  const std::lock_guard lock(mutex_);
  host_steps_.set_recording(on);
  apply(clock_.set_recording(on));
  return answer();
}

sonde_capture Session::set_iteration(std::uint64_t iteration) {
  const std::lock_guard lock(mutex_);
  clock_.set_iteration(iteration);
  return answer();
}

// --- the end ---------------------------------------------------------------------------------------------------------

void Session::abandon() {
  failed_ = true;
  failure_told_ = true;
  if (recorder_) recorder_->abandon();
}

// An ended session is kept, for ops of other threads that are still inside it. They point to nothing but names.
void Session::shrink() {
  identity_ = {};
  attribute_ids_ = {};
  sites_ = {};
  site_ids_ = {};
  site_keys_ = {};
  site_defined_ = {};
  name_key_ids_ = {};
  named_ = {};
  data_names_ = {};
  held_ = {};
  named_ops_ = {};
}

std::string Session::stop() {
  std::unique_lock lock(mutex_);
  settle();
  if (recorder_) apply(named_owner_ ? host_steps_.end() : clock_.stop(), named_owner_);
  if (recorder_) skip_dropped();
  lock.unlock();
  Totals totals;
  if (recorder_) totals = recorder_->finish();
  lock.lock();
  if (recorder_ && !failed_) {
    if (const auto error = recorder_->error()) {
      failure_ = error->message;
      failed_ = true;
    }
  }
  if (!first_found_named_.empty()) first_found_ += line_in_graph(first_found_named_, first_found_graph_);
  shrink();
  std::string text;
  if (failed_ && !failure_told_) text = "sonde: " + failure_ + "\n";
  failure_told_ = true;
  const bool nothing =
      !recorder_ || totals.ops == 0 || (totals.files == 0 && totals.rows == 0 && plan_.saved_data != SavedData::graph);
  if (holds_ && steps_seen_ > 0 && !failed_) {
    text += found_line(totals);
  } else if (nothing) {
    text += "sonde: nothing was recorded: " + why_nothing(totals);
  } else if (!reads_) {
    text += fmt::format("sonde: recorded the graph of {} ops of {} step{} in {}", totals.ops, totals.steps,
                        totals.steps == 1 ? "" : "s", recorder_->layout().rank_directory().string());
  } else {
    text += fmt::format(
        "sonde: recorded {} ops and {} tensors of {} step{} ({} file{}, {} row{}, {:.1f} MB written) "
        "in {}",
        totals.ops, totals.tensors, totals.steps, totals.steps == 1 ? "" : "s", totals.files,
        totals.files == 1 ? "" : "s", totals.rows, totals.rows == 1 ? "" : "s",
        static_cast<double>(totals.bytes_written) / 1e6, recorder_->layout().rank_directory().string());
  }
  if (totals.bytes_dropped > 0) {
    text += fmt::format("; {:.1f} MB {}", static_cast<double>(totals.bytes_dropped) / 1e6,
                        failed_ ? "could not be written" : "were dropped because the budget was full");
  }
  if (totals.records_dropped > 0) {
    text += fmt::format("; {} records were dropped because the disk could not follow", totals.records_dropped);
  }
  if (!nothing && !failed_) text += how_steps_were_counted();
  if (other_host_) {
    text += fmt::format("\nsonde: two frameworks ran in this process; the one that came first, {}, was recorded",
                        run_info_.host);
  }
  if (watches_) {
    for (const std::string& line : watcher_.report()) text += "\nsonde: " + line;
  }
  if (totals.ops == 0 && steps_seen_ == 0 && named_asked_ == 0) return text;
  for (const auto& entry : selector_->unused()) {
    text += fmt::format("\nsonde: {} entry '{}' matched nothing", entry.key, entry.text);
    if (!entry.nearest.empty()) text += fmt::format("; nearest: {}", fmt::join(entry.nearest, ", "));
  }
  return text;
}

// Where more than training ran. How a step is found: step_clock.h.
std::string Session::how_steps_were_counted() const {
  if (named_owner_ || clock_.manual()) return "";
  std::string counted;
  if (clock_.references_begun() > 0) {
    counted += fmt::format("; what ran without gradients inside a training step has its number, in graph {}",
                           clock_.reference_graph());
  }
  if (clock_.evaluations_begun() > 0) {
    counted += fmt::format("; evaluation counts its own steps, in graph {}", clock_.evaluation_graph());
  }
  if (counted.empty()) return "";
  const bool by_forward = plan_.sonde.step == StepRule::forward;
  return fmt::format("\nsonde: a step is {}{}; sonde_settings.step sets another rule",
                     by_forward ? "one forward of the model" : "what ran from one Optimizer.step to the next", counted);
}

std::string Session::why_nothing(const Totals& totals) const {
  if (failed_) return "it could not be written (see above)";
  if (!plan_.nothing.empty()) return plan_.nothing;
  if (excluded_) {
    return fmt::format("device {} is not in support_device [{}]", run_info_.device,
                       fmt::join(plan_.support_device, ","));
  }
  if (host_names_ && !host_steps_.seen()) {
    return "no graph that was compiled since recording began ran";
  }
  if (host_names_ && named_asked_ == 0) {
    return fmt::format("no step matched iteration \"{}\" (steps {}-{} ran)", plan_.iteration.text(),
                       host_steps_.first_seen(), host_steps_.last_seen());
  }
  const std::uint64_t training = clock_.steps_begun();
  const std::uint64_t evaluation = clock_.evaluations_begun();
  if (training + evaluation == 0 && !host_names_) {
    return "no step began: no module was called, and no operator ran that belongs to none; where modules are used "
           "without being called, set sonde_settings.step to \"manual\" and call sonde.step() at the end of each step";
  }
  if (steps_recorded_ == 0 && !host_names_) {
    std::string ran;
    if (training > 0)
      ran += fmt::format("training steps {}-{}", plan_.first_iteration(), plan_.first_iteration() + training - 1);
    if (training > 0 && evaluation > 0) ran += ", ";
    if (evaluation > 0)
      ran += fmt::format("evaluation steps {}-{}", plan_.first_iteration(), plan_.first_iteration() + evaluation - 1);
    return fmt::format("no step matched iteration \"{}\" ({} ran)", plan_.iteration.text(), ran);
  }
  const std::uint64_t ops = std::max(totals.ops, named_asked_);
  if (ops == 0) return "the chosen steps ran no operator";
  if (plan_.dump_mode == DumpMode::flagged && ops_flagged_ == 0) {
    return fmt::format(
        "dump_mode 2 records what sonde.set_dump() was called for, which is none of the {} ops of the "
        "chosen steps",
        ops);
  }
  if (totals.nothing_chosen && plan_.dump_mode != DumpMode::flagged) {
    return fmt::format("none of the {} ops of the chosen steps matched {}", ops,
                       plan_.acl.in_use ? "dump_list" : "kernels");
  }
  return fmt::format("the {} ops of the chosen steps had no tensor that can be read", ops);
}

}  // namespace sonde
