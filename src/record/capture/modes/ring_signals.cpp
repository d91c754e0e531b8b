#include "record/capture/modes/ring_signals.h"

#include <semaphore.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <system_error>
#include <thread>
#include <utility>

#include "ground/base/signals_blocked.h"

namespace sonde {
namespace {

// A handler touches nothing else. The program may be forked, and a handler may run while the session ends: it never goes.
struct Mailbox {
  std::atomic<bool> in_use{false};
  std::atomic<::pid_t> owner{0};
  std::atomic<bool> asked{false}, terminated{false}, ends{false};
  std::array<struct sigaction, 2> before{};  // of the chosen signal, of SIGTERM
  std::array<std::atomic<int>, 2> signals{};
  sem_t wake{};
};
Mailbox g_mailbox;

constexpr std::size_t kChosen = 0, kTerminate = 1;

bool is_default(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_DFL;
}

bool is_ignored(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == 0 && action.sa_handler == SIG_IGN;
}

void call(const struct sigaction& action, int number, siginfo_t* info, void* context) {
  if ((action.sa_flags & SA_SIGINFO) != 0) {
    action.sa_sigaction(number, info, context);
  } else if (!is_default(action) && !is_ignored(action)) {
    action.sa_handler(number);
  }
}

void die_of(int number) {
  struct sigaction plain {};
  plain.sa_handler = SIG_DFL;
  ::sigaction(number, &plain, nullptr);
  ::raise(number);
}

void on_signal(int number, siginfo_t* info, void* context) {
  const int error_before = errno;
  const std::size_t which = number == SIGTERM ? kTerminate : kChosen;
  const struct sigaction& before = g_mailbox.before[which];
  if (g_mailbox.owner.load() != ::getpid() || !g_mailbox.in_use.load()) {  // a forked child, or the session is over
    if (is_default(before)) {
      die_of(number);
    } else {
      call(before, number, info, context);
    }
  } else {
    (which == kTerminate ? g_mailbox.terminated : g_mailbox.asked).store(true);
    ::sem_post(&g_mailbox.wake);
    if (which == kTerminate) call(before, number, info, context);
  }
  errno = error_before;
}

}  // namespace

struct RingSignals::State {
  std::function<void(const std::string&)> write;
  std::string name;
  std::string taken;
  std::thread thread;
  bool has_mailbox = false;

  bool take(std::size_t which, int number);
  void give_back(std::size_t which);
  void run();
};

bool RingSignals::State::take(std::size_t which, int number) {
  struct sigaction& before = g_mailbox.before[which];
  if (::sigaction(number, nullptr, &before) != 0) return false;
  // SIGTERM goes on to the program's handler. Another signal may mean something else to it.
  if (is_ignored(before) || (which == kChosen && !is_default(before))) return false;
  struct sigaction ours {};
  ours.sa_sigaction = on_signal;
  ours.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&ours.sa_mask);
  if (::sigaction(number, &ours, nullptr) != 0) return false;
  g_mailbox.signals[which] = number;
  return true;
}

// Unless the program has set a handler since.
void RingSignals::State::give_back(std::size_t which) {
  const int number = g_mailbox.signals[which].exchange(0);
  struct sigaction now {};
  if (number == 0 || ::sigaction(number, nullptr, &now) != 0) return;
  if ((now.sa_flags & SA_SIGINFO) == 0 || now.sa_sigaction != on_signal) return;
  ::sigaction(number, &g_mailbox.before[which], nullptr);
}

void RingSignals::State::run() {
  while (true) {
    while (::sem_wait(&g_mailbox.wake) != 0 && errno == EINTR) {
    }
    if (g_mailbox.ends.load()) return;
    if (g_mailbox.asked.exchange(false)) write(name);
    if (!g_mailbox.terminated.exchange(false)) continue;
    write("SIGTERM");
    if (!is_default(g_mailbox.before[kTerminate])) continue;  // the program ends itself
    give_back(kTerminate);
    ::kill(::getpid(), SIGTERM);
  }
}

RingSignals::RingSignals(int signal, std::function<void(const std::string&)> write)
    : state_(std::make_unique<State>()) {
  bool free = false;
  state_->has_mailbox = g_mailbox.in_use.compare_exchange_strong(free, true);
  if (!state_->has_mailbox) return;
  state_->write = std::move(write);
  state_->name = signal == SIGUSR1 ? "SIGUSR1" : "SIGUSR2";
  g_mailbox.owner = ::getpid();
  g_mailbox.asked = g_mailbox.terminated = g_mailbox.ends = false;
  ::sem_init(&g_mailbox.wake, 0, 0);
  try {
    const SignalsBlocked blocked;
    state_->thread = std::thread([state = state_.get()] {
      ::pthread_setname_np(::pthread_self(), "sonde-signals");
      state->run();
    });
  } catch (const std::system_error&) {  // signals do as before
    g_mailbox.in_use = false;
    state_->has_mailbox = false;
    return;
  }
  const bool chosen = signal != 0 && state_->take(kChosen, signal);
  const bool terminate = state_->take(kTerminate, SIGTERM);
  state_->taken = chosen ? state_->name + (terminate ? ", SIGTERM" : "") : terminate ? "SIGTERM" : "";
  if (signal != 0 && !chosen) state_->taken += " (not " + state_->name + ": the program uses it)";
}

RingSignals::~RingSignals() {
  if (!state_->has_mailbox) return;
  state_->give_back(kChosen);
  state_->give_back(kTerminate);
  g_mailbox.ends = true;
  ::sem_post(&g_mailbox.wake);
  state_->thread.join();
  g_mailbox.in_use = false;
}

const std::string& RingSignals::taken() const { return state_->taken; }

// The thread stayed in the parent. The handlers find another owner, and do as before.
void RingSignals::abandon() {
  g_mailbox.in_use = false;
  static_cast<void>(state_.release());
  state_ = std::make_unique<State>();
}

}  // namespace sonde
