// The recording of a program that libsonde_torch.so is loaded into: it begins before main() where the environment names a
// configuration, or with the program's own call, and ends with the program.
#pragma once

#include <string>

namespace sonde_torch {

// `config` null: of the environment. Errors go to stderr. Whether it records.
bool start_recording(const char* config);
void stop_recording();

// At the boundary of a step: failures go to stderr, and a plan with stop_after may end the program.
void look_after_step();

// "optimizer-SGD" from its begin to its end, which counts only if returned() was called.
class OptimizerStep {
 public:
  explicit OptimizerStep(std::string type);
  ~OptimizerStep();
  OptimizerStep(const OptimizerStep&) = delete;
  OptimizerStep& operator=(const OptimizerStep&) = delete;
  void returned() { returned_ = true; }

 private:
  bool returned_ = false;
};

void optimizer_exists();
bool optimizer_was_made();

}  // namespace sonde_torch
