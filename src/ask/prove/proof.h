// Proof: whether recording changes what a command computes, from runs without and with it.
//
//   Proof proof = compare_runs(without, recording);
//   if (!proof.all_equal()) compare_by_itself(without, again, proof);   // `again`: a second run without Sonde
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "ask/prove/digests.h"

namespace sonde {

// In the order of the exit statuses of `sonde run --prove`.
enum class ProofVerdict : std::uint8_t { identical, different, unproved, not_reproducible };
std::string_view word_of(ProofVerdict verdict);

// The results of a run.
struct ProvedRun {
  std::filesystem::path digests, output;  // the directory of SONDE_PROVE, and standard output
  int exit_code = 0;
  double seconds = 0;
};

struct Proof {
  ProofVerdict verdict = ProofVerdict::identical;
  RunsCompared tensors;
  std::optional<RunsCompared> by_itself;  // two runs without Sonde
  StdoutCompared output;
  int status_without = 0, status_recording = 0;
  bool status_by_itself = false;  // differs between two runs without Sonde too
  std::vector<double> seconds_without;
  double seconds_recording = 0;

  bool all_equal() const;
  // True if two runs without Sonde do not differ earlier or in the same place.
  bool tensors_by_sonde() const;
};

Proof compare_runs(const ProvedRun& without, const ProvedRun& recording);
// Decides whether Sonde causes the difference, or the command itself is not deterministic.
void compare_by_itself(const ProvedRun& without, const ProvedRun& again, Proof& proof);

}  // namespace sonde
