#include "prove.h"

#include <fmt/format.h>

#include <csignal>

#include "ask/prove/proof.h"
#include "child.h"
#include "dump.h"
#include "face/report/text.h"
#include "ground/base/ranges_text.h"
#include "run_report.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// One run of the command, and the paths of its files.
struct Observed {
  ChildEnd end;
  fs::path digests, output;
  std::vector<RunMessage> messages;
};

Result<Observed> observe(const ProveRequest& request, const char* name, bool recording) {
  Observed run;
  const fs::path place = request.scratch / name;
  run.digests = place / "digests";
  run.output = place / "stdout";
  std::error_code error;
  if (!fs::create_directories(run.digests, error))
    return Error{ErrorCode::io, fmt::format("cannot make '{}': {}", run.digests.string(), error.message())};
  ChildSetting setting;
  setting.output = run.output;
  setting.environment = {{"SONDE_PROVE", run.digests.string()}, {"SONDE_RUN_REPORT", (place / "report").string()}};
  setting.without = {"SONDE_CONFIG", "MINDSPORE_DUMP_CONFIG"};
  if (recording) setting.environment.emplace_back("SONDE_CONFIG", request.config.string());
  const Result<ChildEnd> end = run_child(request.command, setting);
  if (!end) return end.error();
  run.end = *end;
  run.messages = read_run_messages(place / "report");
  print_notice(fmt::format("sonde: {}: {:.2f} s, exit status {}\n", recording ? "recording" : "without Sonde",
                           run.end.seconds, run.end.exit_code));
  return run;
}

bool interrupted(const ChildEnd& end) {
  return end.signal == SIGINT || end.signal == SIGTERM || end.signal == SIGHUP || end.signal == SIGQUIT;
}

std::string why_unproved(const Observed& without, const Observed& recording) {
  for (const Observed* run : {&without, &recording})
    for (const RunMessage& message : run->messages)
      if (message.kind == "unobserved") return message.text;
  if (any(recording.messages, "refused")) return "recording did not start; the reason is above";
  if (any(recording.messages, "started") && !any(without.messages, "observed"))
    return "nothing could be observed; the reason is above";
  return "";
}

ProvedRun proved(const Observed& run) { return {run.digests, run.output, run.end.exit_code, run.end.seconds}; }

// The messages of the processes, beside the proof.
struct Reported {
  bool started = false;  // a process of the recorded run started Sonde
  std::vector<std::string> recorded;
  std::string unproved;  // the reason why nothing was proved; empty if something was
};

Reported reported_by(const Observed& without, const Observed& recording) {
  Reported reported;
  reported.started = any(recording.messages, "started");
  for (const RunMessage& message : recording.messages)
    if (message.kind == "summary") reported.recorded.push_back(message.text);
  reported.unproved = why_unproved(without, recording);
  return reported;
}

// --- output ----------------------------------------------------------------------------------------------------------

template <typename... Parts>
void say(fmt::format_string<Parts...> text, Parts&&... parts) {
  print_text(fmt::format(text, std::forward<Parts>(parts)...));
}

std::string amounts(const RunsCompared& tensors) {
  std::string text = fmt::format("{}, {}", count_text(tensors.steps, "step"), count_text(tensors.tensors, "tensor"));
  return tensors.processes.size() > 1 ? fmt::format("{} processes, {}", tensors.processes.size(), text) : text;
}

std::string plural(const std::string& kind) {
  if (kind == "loss") return "losses";
  return kind == "optimizer state" ? kind : kind + "s";
}

std::string kinds_text(const RunsCompared& tensors) {
  std::vector<std::string> words;
  for (const std::string& kind : tensors.kinds) words.push_back(plural(kind));
  return joined(words, ", ");
}

std::string where(const RunDifference& difference) {
  std::string text = difference.place;
  if (!difference.name.empty()) text += fmt::format(": {} {}", difference.kind, difference.name);
  return difference.process == "main" ? text : fmt::format("{}: {}", difference.process, text);
}

void say_difference(const RunsCompared& compared, const char* first, const char* second) {
  const RunDifference& difference = *compared.first_difference;
  say("  first difference: {}\n    {:13}  {}\n    {:13}  {}\n  equal before it: {}\n", printable(where(difference)),
      first, printable(difference.first), second, printable(difference.second), amounts(compared));
}

std::string output_text(const Proof& proof) {
  if (proof.output.reordered)
    return fmt::format("stdout has the same {} in another order, as several processes write it",
                       word_of(*proof.output.reordered));
  if (proof.output.different.empty()) return "stdout identical";
  if (!proof.output.different_by_sonde.empty())
    return fmt::format("stdout differs in line {}", ranges_text(proof.output.different_by_sonde));
  return fmt::format("stdout identical except for line {}, which {} between runs without Sonde too (times?)",
                     ranges_text(proof.output.different), proof.output.different.size() == 1 ? "differs" : "differ");
}

std::string status_text(const Proof& proof) {
  if (proof.status_without == proof.status_recording)
    return fmt::format("exit status {} both times", proof.status_without);
  return fmt::format("exit status {} without Sonde, {} recording{}", proof.status_without, proof.status_recording,
                     proof.status_by_itself ? " (it changes without Sonde too)" : "");
}

void say_identical(const Proof& proof) {
  if (proof.tensors.events == 0)
    say("identical: {}; {}; no tensors were seen\n", output_text(proof), status_text(proof));
  else
    say("identical bit for bit: {}: {}; {}; {}\n", amounts(proof.tensors), kinds_text(proof.tensors),
        output_text(proof), status_text(proof));
}

void say_verdict(const Proof& proof, const Reported& reported) {
  if (proof.verdict == ProofVerdict::unproved) {
    say("nothing is proved: {}\n", reported.unproved);
  } else if (proof.verdict == ProofVerdict::identical) {
    say_identical(proof);
  } else if (proof.verdict == ProofVerdict::different) {
    say("different: with Sonde the command computes something else; twice without Sonde it does not\n");
    if (proof.tensors_by_sonde()) say_difference(proof.tensors, "without Sonde", "recording");
    say("  {}; {}\n", output_text(proof), status_text(proof));
  } else {
    say("not deterministic: two runs without Sonde differ, so its effect cannot be measured\n");
    if (proof.by_itself->first_difference) say_difference(*proof.by_itself, "first run", "second run");
    say("  {}; {}\n", output_text(proof), status_text(proof));
    say("  seeds (torch.manual_seed, PYTHONHASHSEED), one thread, and no files left by a run make it reproducible\n");
  }
  for (const auto& [why, tensors] : proof.tensors.skipped)
    say("  not compared: {} ({})\n", count_text(tensors, "tensor"), why);
  if (!reported.started && proof.verdict == ProofVerdict::identical)
    say("  nothing was recorded: no process of the run imported PyTorch in a Python that has sonde installed\n");
  if (proof.verdict == ProofVerdict::different) say("  this is a defect of Sonde: please report it\n");
}

ProofDocument answer_of(const Proof& proof, const Reported& reported) {
  ProofDocument answer;
  answer.verdict = word_of(proof.verdict);
  answer.compared = proof.tensors;
  answer.without_sonde = proof.by_itself;
  answer.stdout = proof.output;
  answer.exit_status = {proof.status_without, proof.status_recording};
  answer.seconds = {proof.seconds_without, proof.seconds_recording};
  answer.recorded = reported.recorded;
  answer.unproved = reported.unproved;
  return answer;
}

}  // namespace

int prove(const ProveRequest& request) {
  print_notice(
      fmt::format("sonde: running the command twice, first without Sonde, then recording into {}; its output is kept "
                  "and compared\n",
                  printable(request.dump.string())));
  std::vector<Observed> runs;  // without, recording, and without again if they differ
  Proof proof;
  Reported reported;
  for (const char* name : {"without", "recording", "again"}) {
    Result<Observed> run = observe(request, name, runs.size() == 1);
    if (!run) return status_of_no_run(run.error());
    if (interrupted(run->end)) return run->end.exit_code;
    runs.push_back(*std::move(run));
    if (runs.size() == 1) continue;
    if (runs.size() == 3) break;
    proof = compare_runs(proved(runs[0]), proved(runs[1]));
    reported = reported_by(runs[0], runs[1]);
    for (const std::string& line : reported.recorded) print_notice(printable(line) + "\n");
    if (!reported.unproved.empty()) proof.verdict = ProofVerdict::unproved;
    if (!reported.unproved.empty() || proof.all_equal()) break;
    print_notice("sonde: the two runs differ; running it once more without Sonde\n");
  }
  if (runs.size() == 3) compare_by_itself(proved(runs[0]), proved(runs[2]), proof);
  if (request.json)
    Answer::get().add(answer_of(proof, reported));
  else
    say_verdict(proof, reported);
  return static_cast<int>(proof.verdict);  // in the order of the exit statuses
}

}  // namespace sonde
