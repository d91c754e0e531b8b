// RingSignals: writes the ring when a signal asks for it, also in a program that runs no operator at the moment.
//
// A signal handler may do nothing but wake a thread; that thread writes. SIGTERM then ends the program as it would have
// without Sonde: by the program's own handler, or by the default.
#pragma once

#include <functional>
#include <memory>
#include <string>

namespace sonde {

// One in a process: another one takes nothing until it is gone.
class RingSignals {
 public:
  // `signal`: 0 for none, else it is taken if the program does not use it. `write(why)` is called on a thread of its own.
  RingSignals(int signal, std::function<void(const std::string& why)> write);
  ~RingSignals();  // gives the signals back
  RingSignals(const RingSignals&) = delete;
  RingSignals& operator=(const RingSignals&) = delete;

  // "SIGUSR2 and SIGTERM"; why a signal was not taken.
  const std::string& taken() const;
  void abandon();  // in a forked child

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace sonde
