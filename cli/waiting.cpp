#include "waiting.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace sonde {

Waiting::Waiting(std::string work, std::size_t all) : work_(std::move(work)), all_(all) {
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

void Waiting::now(std::string work, std::size_t done, std::size_t all) {
  const Lock lock(mutex_);
  work_ = std::move(work);
  done_ = done;
  all_ = all;
}

void Waiting::advance() {
  const Lock lock(mutex_);
  ++done_;
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
  const std::string part = all_ > 1 ? fmt::format(" {} of {},", done_, all_) : "…";
  fmt::print(stderr, "\r{}{} {} s\033[K", work_, part, seconds);
  std::fflush(stderr);
  is_shown_ = true;
}

}  // namespace sonde
