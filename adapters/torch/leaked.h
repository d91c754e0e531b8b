// Leaked: a table of the process that is never destroyed, since threads may outlive static destruction.
#pragma once

#include <atomic>

namespace sonde_torch {

template <typename Table>
class Leaked {
 public:
  Table& operator*() const { return *now_.load(); }
  Table* operator->() const { return now_.load(); }
  // An empty one takes its place. The old one is kept: another thread may be using it, or had its lock before a fork.
  void renew() { now_.store(new Table); }

 private:
  std::atomic<Table*> now_{new Table};
};

}  // namespace sonde_torch
