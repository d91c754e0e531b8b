// The adapter's table of work on its way from devices. The device ends its work when a test says so.
#include "in_flight.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace sonde_torch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

struct Device {
  std::atomic<int> ended{0};  // events up to this one
  std::atomic<int> queries{0};
  std::atomic<bool> lost{false};
  std::function<void(const char*)> asked;
};

struct Event {
  Device* device;
  int number;

  bool query() const {
    ++device->queries;
    if (device->asked) device->asked("query");
    if (device->lost) throw std::runtime_error("lost");
    return number <= device->ended;
  }
  void synchronize() const {
    if (device->asked) device->asked("synchronize");
    if (device->lost) throw std::runtime_error("lost");
    if (device->ended < number) device->ended = number;
  }
};

struct Part {
  int stream;
  Event done;
};

class InFlightParts : public ::testing::Test {
 protected:
  void add(int stream, int number) { parts_.add({stream, {&device_, number}}); }
  void poll() {
    parts_.poll([this](const Part& part, bool lost) { take(part, lost); });
  }
  void drain() {
    parts_.drain([this](const Part& part, bool lost) { take(part, lost); });
  }
  void take(const Part& part, bool lost) {
    const std::lock_guard lock(taken_mutex_);
    (lost ? lost_ : taken_).push_back(part.done.number);
  }

  Device device_;
  std::mutex taken_mutex_;
  InFlight<Part> parts_;
  std::vector<int> taken_, lost_;
};

TEST_F(InFlightParts, OnlyWhatHasEndedIsHandedOver) {
  add(0, 1);
  add(0, 2);
  poll();
  EXPECT_THAT(taken_, IsEmpty());
  device_.ended = 1;
  poll();
  EXPECT_THAT(taken_, ElementsAre(1));
  EXPECT_FALSE(parts_.is_empty());
}

TEST_F(InFlightParts, BehindAPartThatGoesOnItsStreamIsNotAsked) {
  for (int number = 1; number <= 100; ++number) add(number % 2, number);
  poll();
  EXPECT_EQ(device_.queries, 2) << "one for each stream";
}

TEST_F(InFlightParts, ADrainWaitsForTheDevice) {
  add(0, 1);
  add(1, 2);
  drain();
  EXPECT_THAT(taken_, ElementsAre(1, 2));
  EXPECT_TRUE(parts_.is_empty());
}

TEST_F(InFlightParts, WhatALostDeviceHadToDoIsHandedOverAsLost) {
  add(0, 1);
  device_.lost = true;
  drain();
  EXPECT_THAT(lost_, ElementsAre(1));
  EXPECT_TRUE(parts_.is_empty());
}

// Else a recording could end while another thread still has the last tensors in its hands.
TEST_F(InFlightParts, ADrainWaitsForPartsThatAnotherThreadHandsOver) {
  add(0, 1);
  device_.ended = 1;
  std::promise<void> has_taken, may_go_on;
  std::thread other([&] {
    parts_.poll([&](const Part& part, bool lost) {
      has_taken.set_value();
      may_go_on.get_future().wait();
      take(part, lost);
    });
  });
  has_taken.get_future().wait();
  std::atomic<bool> drained{false};
  std::thread waits([&] {
    drain();
    drained = true;
  });
  for (int turn = 0; turn < 200; ++turn) std::this_thread::yield();
  EXPECT_FALSE(drained);
  may_go_on.set_value();
  waits.join();
  EXPECT_THAT(taken_, ElementsAre(1));
  other.join();
}

// The table is locked while it is asked. Other threads need the lock to finish an operator, so nobody waits with it, or calls
// the engine.
TEST_F(InFlightParts, NobodyWaitsWithTheLock) {
  std::map<std::string, bool> locked;
  const auto look = [&](const char* where) { std::thread([&] { locked[where] = parts_.is_locked(); }).join(); };
  add(0, 1);
  device_.asked = look;
  parts_.drain([&](const Part&, bool) { look("hand over"); });
  EXPECT_THAT(locked, ElementsAre(Pair("hand over", false), Pair("query", true), Pair("synchronize", false)));
}

TEST_F(InFlightParts, ThreadsThatAddAndTakeLoseNothing) {
  constexpr int kThreads = 4, kEach = 500;
  device_.ended = kThreads * kEach;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([this, thread] {
      for (int i = 0; i < kEach; ++i) {
        add(thread, thread * kEach + i);
        poll();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  drain();
  EXPECT_EQ(taken_.size(), static_cast<std::size_t>(kThreads * kEach));
}

}  // namespace
}  // namespace sonde_torch
