#include "waiting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace sonde {

Waiting::Waiting(std::string work) : work_(std::move(work)) {
  if (::isatty(STDERR_FILENO) == 1) thread_ = std::thread([this] { run(); });
}

Waiting::~Waiting() {
  {
    const Lock lock(mutex_);
    is_over_ = true;
  }
  woken_.notify_all();
  if (!thread_.joinable()) return;
  thread_.join();
  const Lock lock(mutex_);
  if (is_shown_) std::fputs("\r\033[K", stderr);
}

void Waiting::now(std::string work) {
  const Lock lock(mutex_);
  work_ = std::move(work);
  step_ = steps_ = 0;
}

void Waiting::at(std::size_t step, std::size_t steps) {
  const Lock lock(mutex_);
  step_ = step;
  steps_ = steps;
}

void Waiting::run() {
  const Lock lock(mutex_);
  for (auto next = began_ + std::chrono::seconds(1); !is_over_;) {
    if (woken_.wait_until(mutex_, next)) continue;  // at the end, or for no reason
    show();
    next = Clock::now() + std::chrono::seconds(1);
  }
}

void Waiting::show() {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - began_).count();
  const std::string part = steps_ > 1 ? fmt::format(" step {} of {},", step_, steps_) : "";
  fmt::print(stderr, "\r{}…{} {} s\033[K", work_, part, seconds);
  std::fflush(stderr);
  is_shown_ = true;
}

}  // namespace sonde
