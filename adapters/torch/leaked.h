// Leaked: a table of the process that is never destroyed, since threads may outlive static destruction.
#pragma once

#include <pthread.h>

#include <atomic>

namespace sonde_torch {

template <typename Table>
class Leaked {
 public:
  Table& operator*() const { return *now_.load(); }
  Table* operator->() const { return now_.load(); }
  // An empty one takes its place. The old one is kept: another thread may be using it, or had its lock before a fork.
  void renew() { now_.store(new Table); }
  // In the child of a fork. If a thread had the table's lock, it stayed in the parent, and the table is half written.
  void renew_if_locked() {
    if (now_.load()->is_locked()) renew();
  }

 private:
  std::atomic<Table*> now_{new Table};
};

// The one table of its type, Synchronized or with an is_locked() of its own, made at its first use; a forked child can use it, too.
template <typename Table>
Table& table_of_process() {
  static Leaked<Table>* table = [] {
    pthread_atfork(nullptr, nullptr, [] { table->renew_if_locked(); });
    return new Leaked<Table>;
  }();
  return **table;
}

}  // namespace sonde_torch
