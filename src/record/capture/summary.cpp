#include "record/capture/summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dump/journal/unrecorded.h"
#include "ground/base/text.h"
#include "record/writer/ring.h"

namespace sonde {
namespace {

// "(12 files, 3 rows, 4.5 MB written) in /data/run7/rank_0"
std::string what_was_written(const SessionEnd& end) REQUIRES(session_lock) {
  return fmt::format("({}, {}, {:.1f} MB written) in {}", count_text(end.totals.files, "file"),
                     count_text(end.totals.rows, "row"), static_cast<double>(end.totals.bytes_written) / 1e6,
                     end.ops.recorder()->directory().string());
}

// The directory of its rank was another process's.
std::string why_elsewhere(const SessionEnd& end) REQUIRES(session_lock) {
  const Recorder* recorder = end.ops.recorder();
  if (recorder == nullptr || recorder->directory() == recorder->layout().rank_directory()) return "";
  return fmt::format("\nsonde: {} belongs to another process of rank {}; {} is the next free one",
                     recorder->layout().rank_directory().string(), end.run.rank, recorder->directory().string());
}

// Modes that keep only what they find.
std::string what_was_found(const SessionEnd& end) REQUIRES(session_lock) {
  const bool overflow = end.plan.overflow_only();
  const OpRecorder::Counts& counts = end.ops.counts();
  const std::uint64_t found = end.ops.found().count;
  const std::string looked = count_text(counts.ops, "op") + " of " + count_text(counts.steps_ended, "step");
  if (found == 0) {
    return overflow ? fmt::format("sonde: {} looked at, none overflowed", looked)
                    : fmt::format("sonde: {} ran, none threw an exception", looked);
  }
  const std::string place = end.ops.found().place + end.found_line;
  const std::string where = "recorded " + count_text(end.totals.tensors, "tensor") + " " + what_was_written(end);
  if (!overflow) {
    const std::string more = found > 1 ? fmt::format(" ({} operators threw; this was the last)", found) : "";
    return fmt::format("sonde: {} threw an exception{}; its inputs: {}", place, more, where);
  }
  const std::string stopped =
      end.ops.found_enough() ? fmt::format(", then overflow_number {} was reached", end.plan.overflow_number) : "";
  return fmt::format("sonde: {} overflowed, the first was {}; {} looked at{}; {}", count_text(found, "op"), place,
                     looked, stopped, where);
}

// If more than training ran. The detection of steps: step_clock.h.
std::string how_steps_were_counted(const SessionEnd& end) REQUIRES(session_lock) {
  if (end.named_owner || end.clock.manual()) return "";
  std::string ran;
  if (end.clock.references().begun > 0) {
    ran += fmt::format("; operators without gradients inside a training step have its number, in graph {}",
                       end.clock.references().graph);
  }
  if (end.clock.evaluations().begun > 0) {
    ran += fmt::format("; evaluation counts its own steps, in graph {}", end.clock.evaluations().graph);
  }
  if (ran.empty()) return "";
  if (end.clock.steps_begun() == 0) {  // no training: nothing but forwards without gradients
    return fmt::format(
        "\nsonde: a step is one forward of the model, in graph {}; sonde_settings.step sets another rule",
        end.clock.evaluations().graph);
  }
  const bool by_forward = end.plan.sonde.step == StepRule::forward;
  return fmt::format("\nsonde: a step is {}{}; sonde_settings.step sets another rule",
                     by_forward ? "one forward of the model" : "the operators from one Optimizer.step to the next",
                     ran);
}

// "training steps 0-3, evaluation steps 0-1"
std::string steps_that_ran(const SessionEnd& end) REQUIRES(session_lock) {
  const std::uint64_t first = end.plan.first_step();
  const std::uint64_t training = end.clock.steps_begun(), evaluation = end.clock.evaluations().begun;
  std::string ran;
  if (training > 0) ran += fmt::format("training steps {}-{}", first, first + training - 1);
  if (training > 0 && evaluation > 0) ran += ", ";
  if (evaluation > 0) ran += fmt::format("evaluation steps {}-{}", first, first + evaluation - 1);
  return ran;
}

// The requested steps that did not run; empty: all ran.
std::string why_no_step(const SessionEnd& end) REQUIRES(session_lock) {
  const NamedHost& host = end.named_host;
  if (host.exists()) {
    if (!host.steps().seen()) return "no graph compiled after recording started was executed";
    if (host.ops_asked() > 0) return "";
    return fmt::format("no step matched iteration \"{}\" (steps {}-{} ran)", end.plan.iteration.text(),
                       host.steps().first_seen(), host.steps().last_seen());
  }
  if (end.clock.steps_begun() + end.clock.evaluations().begun == 0) {
    return "no step began: no module was called, and no operator ran that belongs to none; where modules are used "
           "without being called, set sonde_settings.step to \"manual\" and call sonde.step() at the end of each step";
  }
  if (end.ops.counts().steps_begun > 0) return "";
  if (!end.plan.sonde.requests.empty()) {
    return fmt::format("no chosen step worked on request {} ({} ran)", fmt::join(end.plan.sonde.requests, ", "),
                       steps_that_ran(end));
  }
  if (end.plan.iteration.is_all())
    return fmt::format("no operator was reported in its steps ({} ran)", steps_that_ran(end));
  return fmt::format("no step matched iteration \"{}\" ({} ran)", end.plan.iteration.text(), steps_that_ran(end));
}

std::string why_nothing(const SessionEnd& end) REQUIRES(session_lock) {
  if (end.failed) return "it could not be written (see above)";
  if (!end.plan.nothing.empty()) return end.plan.nothing;
  if (end.excluded) {
    return fmt::format("device {} is not in support_device [{}]", end.run.device,
                       fmt::join(end.plan.support_device, ","));
  }
  if (end.children_record) return "this process ran no model; those that it started are recorded";
  if (const std::string why = why_no_step(end); !why.empty()) return why;
  const std::uint64_t ops = std::max(end.totals.ops, end.named_host.ops_asked());
  if (ops == 0) return "no operator ran in the chosen steps";
  if (end.plan.dump_mode == DumpMode::flagged && end.ops.counts().flagged_ops == 0) {
    return fmt::format(
        "dump_mode 2 records the targets of sonde.set_dump(); they are not among the {} ops of the "
        "chosen steps",
        ops);
  }
  if (end.totals.nothing_chosen && end.plan.dump_mode != DumpMode::flagged) {
    return fmt::format("none of the {} ops of the chosen steps matched {}", ops,
                       end.plan.acl.in_use ? "dump_list" : "kernels");
  }
  return fmt::format("the {} ops of the chosen steps had no tensor that can be read", ops);
}

std::string what_was_recorded(const SessionEnd& end) REQUIRES(session_lock) {
  const Totals& totals = end.totals;
  if (end.plan.saved_data == SavedData::graph) {
    return fmt::format("sonde: recorded the graph of {} ops of {} in {}", totals.ops, count_text(totals.steps, "step"),
                       end.ops.recorder()->directory().string());
  }
  return fmt::format("sonde: recorded {} ops and {} tensors of {} {}", totals.ops, totals.tensors,
                     count_text(totals.steps, "step"), what_was_written(end));
}

// The ring: how often it was written, and the last reason.
std::string what_the_ring_wrote(const SessionEnd& end) REQUIRES(session_lock) {
  const Ring* ring = end.ops.recorder() != nullptr ? end.ops.recorder()->ring() : nullptr;
  if (ring == nullptr) return "";
  const RingReport report = ring->report();
  if (report.writes == 0) {
    return fmt::format(
        "sonde: the ring was not written: no NaN or infinity reached the loss, a gradient or a parameter in {}, and "
        "nothing else asked for it",
        count_text(report.steps_left_out, "step"));
  }
  const std::string full =
      report.cut_steps > 0 ? fmt::format("; ring_bytes was full {}", count_text(report.cut_steps, "time")) : "";
  return fmt::format("sonde: the ring was written {}, {} of {}{}; the last time for: {}",
                     count_text(report.writes, "time"), count_text(report.steps_written, "step"),
                     report.steps_written + report.steps_left_out, full, report.last_reason);
}

std::string size_text(std::uint64_t bytes) {
  if (bytes < 1000) return count_text(bytes, "byte");
  return bytes < 1'000'000 ? fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1e3)
                           : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

// The steps that began after the recording had stopped; the one in which it did may lack operators.
std::string steps_without_recording(const SessionEnd& end) REQUIRES(session_lock) {
  if (!end.failed || end.named_host.exists()) return "";
  const std::uint64_t ran = end.clock.steps_begun() + end.clock.evaluations().begun;
  if (ran <= end.totals.steps) return "; nothing is recorded from there on";
  return fmt::format("; {} of {} that ran are missing", ran - end.totals.steps, count_text(ran, "step"));
}

std::string what_was_lost(const SessionEnd& end) REQUIRES(session_lock) {
  std::string text = steps_without_recording(end);
  if (end.totals.bytes_dropped > 0) {
    text += fmt::format("; {} {}", size_text(end.totals.bytes_dropped),
                        end.failed ? "could not be written" : "were dropped because the budget was full");
  }
  if (end.totals.records_dropped > 0) {
    text += fmt::format("; {} records were dropped because the disk could not keep up", end.totals.records_dropped);
  }
  return text;
}

// Entries of the plan that nothing matched.
std::string what_was_not_there(const SessionEnd& end) REQUIRES(session_lock) {
  std::string text;
  if (end.totals.ops == 0 && end.ops.counts().steps_ended == 0 && end.named_host.ops_asked() == 0) return text;
  for (const auto& entry : end.ops.selector().unused()) {
    text += fmt::format("\nsonde: {} entry '{}' matched nothing", entry.key, entry.text);
    if (!entry.instead.empty()) {
      text += fmt::format(": a compiled graph computes {}; choose one of these, or its module", entry.instead);
    }
    if (!entry.nearest.empty()) text += fmt::format("; nearest: {}", fmt::join(entry.nearest, ", "));
  }
  return text;
}

bool is_nothing(const SessionEnd& end) REQUIRES(session_lock) {
  const Totals& totals = end.totals;
  if (end.ops.recorder() == nullptr || totals.ops == 0) return true;
  return totals.files == 0 && totals.rows == 0 && end.plan.saved_data != SavedData::graph;
}

}  // namespace

std::string ring_line(const Plan& plan, const std::string& signals) {
  return fmt::format(
      "ring: keeps the last {} of each graph, at most {:.1f} MB; written for a NaN or infinity in the loss, a gradient "
      "or a parameter (at most {}), {}an exception that ends the program, and sonde.write_ring()",
      count_text(plan.sonde.ring, "step"), static_cast<double>(plan.sonde.ring_bytes) / 1e6,
      count_text(plan.sonde.ring_writes, "time"), signals.empty() ? "" : signals + ", ");
}

std::string closing_line(const SessionEnd& end) {
  std::string text;
  if (!end.failure.empty()) text = "sonde: " + end.failure + "\n";
  const bool looks_for_ops = end.plan.searches();
  const bool nothing = is_nothing(end);
  const std::string ring = end.failed ? "" : what_the_ring_wrote(end);
  if (looks_for_ops && end.ops.counts().steps_ended > 0 && !end.failed) {
    text += what_was_found(end);
  } else if (nothing && !ring.empty() && end.ops.counts().steps_ended > 0) {
    text += ring;
  } else if (nothing) {
    text += "sonde: nothing was recorded: " + why_nothing(end);
  } else {
    text += what_was_recorded(end) + (ring.empty() ? "" : "\n" + ring);
  }
  text += what_was_lost(end);
  if (!nothing) text += why_elsewhere(end);
  if (!nothing && !end.failed) text += how_steps_were_counted(end);
  if (end.other_host) {
    text += fmt::format("\nsonde: two frameworks ran in this process; the one that came first, {}, was recorded",
                        end.run.host);
  }
  if (end.run.host.find(kPynativeHost) != std::string::npos) text += fmt::format("\nsonde: {}", kPynativeNote);
  if (end.plan.acl.scene == Scene::watcher) {
    for (const std::string& line : end.ops.watcher().report()) text += "\nsonde: " + line;
  }
  return text + what_was_not_there(end);
}

}  // namespace sonde
