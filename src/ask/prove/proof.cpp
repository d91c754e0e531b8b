#include "ask/prove/proof.h"

#include <algorithm>
#include <iterator>

namespace sonde {
namespace {

ProofVerdict verdict_of(const Proof& proof) {
  const bool status_differs = proof.status_without != proof.status_recording;
  const bool by_sonde = proof.tensors_by_sonde() || !proof.output.different_by_sonde.empty() ||
                        (status_differs && !proof.status_by_itself);
  if (by_sonde) return ProofVerdict::different;
  const bool only_output = proof.tensors.events == 0 && !proof.output.different.empty();
  const bool by_itself = proof.tensors.first_difference || status_differs || only_output;
  return by_itself ? ProofVerdict::not_reproducible : ProofVerdict::identical;
}

}  // namespace

std::string_view word_of(ProofVerdict verdict) {
  switch (verdict) {
    case ProofVerdict::identical:
      return "identical";
    case ProofVerdict::different:
      return "different";
    case ProofVerdict::unproved:
      return "unproved";
    default:
      return "not_reproducible";
  }
}

bool Proof::all_equal() const {
  return !tensors.first_difference && output.different.empty() && status_without == status_recording;
}

bool Proof::tensors_by_sonde() const {
  const auto& found = tensors.first_difference;
  const auto& usual = by_itself->first_difference;
  return found && (!usual || usual->event > found->event);
}

Proof compare_runs(const ProvedRun& without, const ProvedRun& recording) {
  Proof proof;
  proof.tensors = compare_digests(without.digests, recording.digests);
  proof.output = compare_output(without.output, recording.output, proof.tensors.processes.size() > 1);
  proof.status_without = without.exit_code;
  proof.status_recording = recording.exit_code;
  proof.seconds_without = {without.seconds};
  proof.seconds_recording = recording.seconds;
  return proof;
}

void compare_by_itself(const ProvedRun& without, const ProvedRun& again, Proof& proof) {
  proof.by_itself = compare_digests(without.digests, again.digests);
  proof.status_by_itself = again.exit_code != without.exit_code;
  proof.seconds_without.push_back(again.seconds);
  const StdoutCompared usual = compare_output(without.output, again.output, proof.by_itself->processes.size() > 1);
  std::ranges::set_difference(proof.output.different, usual.different,
                              std::back_inserter(proof.output.different_by_sonde));
  proof.verdict = verdict_of(proof);
}

}  // namespace sonde
