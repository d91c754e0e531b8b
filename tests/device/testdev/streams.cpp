#include "streams.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "device.h"

namespace testdev {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kLongestQueue = 1024;  // as of a GPU's driver; older tasks become due

struct Plan {
  std::atomic<Schedule> schedule{Schedule::shuffled};
  std::atomic<std::uint64_t> seed{0}, longest_delay_us{300};
};

// One lock for all streams: there are few, and a test device need not be fast.
struct Streams {
  std::mutex mutex;
  std::condition_variable changed;
  std::array<std::vector<std::unique_ptr<Stream>>, kDevices> of_device;  // by id
  std::array<std::vector<Stream*>, kDevices> pool;
  std::array<std::size_t, kDevices> next_pooled{};
};

struct KernelError {
  std::mutex mutex;
  std::string text;
};

Plan& plan() {
  static auto* leaked = new Plan;
  return *leaked;
}

Streams& streams() {
  static auto* leaked = [] {
    auto* made = new Streams;
    for (int device = 0; device < kDevices; ++device)
      made->of_device[device].push_back(std::make_unique<Stream>(device, 0));
    return made;
  }();
  return *leaked;
}

KernelError& kernel_error() {
  static auto* leaked = new KernelError;
  return *leaked;
}

std::uint64_t clock_ns() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

std::array<c10::StreamId, kDevices>& current_ids() {
  thread_local std::array<c10::StreamId, kDevices> ids{};
  return ids;
}

Stream& find(int device, c10::StreamId id) {
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  auto& own = all.of_device.at(static_cast<std::size_t>(device));
  TORCH_CHECK(id >= 0 && static_cast<std::size_t>(id) < own.size(), "testdev: no stream ", id);
  return *own[static_cast<std::size_t>(id)];
}

}  // namespace

bool Position::is_reached() const {
  if (stream == nullptr) return true;
  const std::lock_guard lock(streams().mutex);
  return stream->done_ >= sequence;
}

void Position::wait() const {
  if (stream == nullptr) return;
  Streams& all = streams();
  std::unique_lock lock(all.mutex);
  all.changed.wait(lock, [&] {
    for (const auto& own : all.of_device) {
      if (std::any_of(own.begin(), own.end(), [](const auto& other) { return !other->is_settled(); })) return false;
    }
    return true;
  });
  stream->go_to(sequence);
  all.changed.wait(lock, [&] { return stream->done_ >= sequence; });
}

Stream::Stream(int device, c10::StreamId id)
    : device(device), id(id), random_(plan().seed + static_cast<std::uint64_t>(id) * 7919 + 1) {}

std::uint64_t Stream::due_time() {
  const bool is_main = id == 0;
  switch (plan().schedule.load()) {
    case Schedule::eager:
      return 0;
    case Schedule::main_last:
      return is_main ? kNever : 0;
    case Schedule::others_last:
      return is_main ? 0 : kNever;
    case Schedule::last:
      return kNever;
    case Schedule::shuffled:
      break;
  }
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;
  return clock_ns() + (random_ >> 33) % (plan().longest_delay_us * 1000 + 1);
}

void Stream::check_accepts() const {
  check_usable(device);
  TORCH_CHECK(!is_destroyed_, "testdev: stream ", id, " of device ", device, " was destroyed");
}

Position Stream::add(Step step) {
  check_usable(device);  // before the lock, which another thread may have held when the process was forked
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  check_accepts();
  if (captures_) {
    captured_.push_back(std::move(step));
    return {this, enqueued_};
  }
  if (!has_thread_) {
    has_thread_ = true;
    std::thread([this] { work(); }).detach();
  }
  queue_.push_back({std::move(step), ++enqueued_, due_time()});
  if (queue_.size() > kLongestQueue) go_to(enqueued_ - kLongestQueue / 2);
  all.changed.notify_all();
  return {this, enqueued_};
}

void Stream::wait_for(const Position& position) {
  if (position.stream == nullptr || position.stream == this) return;
  count(device, Counter::stream_waits);
  add({{}, position});
}

Position Stream::now() {
  check_usable(device);
  const std::lock_guard lock(streams().mutex);
  check_accepts();
  return {this, enqueued_};
}

Position Stream::end() {
  const std::lock_guard lock(streams().mutex);
  return {this, enqueued_};
}

void Stream::destroy() {
  const std::lock_guard lock(streams().mutex);
  TORCH_CHECK(id != 0, "testdev: the first stream cannot be destroyed");
  is_destroyed_ = true;
}

void Stream::begin_capture() {
  const std::lock_guard lock(streams().mutex);
  captures_ = true;
}

std::vector<Stream::Step> Stream::end_capture() {
  const std::lock_guard lock(streams().mutex);
  captures_ = false;
  return std::exchange(captured_, {});
}

bool Stream::is_capturing() {
  const std::lock_guard lock(streams().mutex);
  return captures_;
}

// --- under the lock --------------------------------------------------------------------------------------------------

bool Stream::may_run(const Item& item) const {
  const Position& awaited = item.step.awaited;
  if (awaited.stream != nullptr && awaited.stream->done_ < awaited.sequence) return false;
  return item.sequence <= demanded_ || item.due <= clock_ns();
}

// Whether it has done all that it does without anybody's waiting for it.
bool Stream::is_settled() const {
  if (plan().schedule == Schedule::shuffled || plan().schedule == Schedule::eager) return true;
  return !is_running_ && (queue_.empty() || !may_run(queue_.front()));
}

void Stream::go_to(std::uint64_t sequence) {
  demanded_ = std::max(demanded_, sequence);
  for (const Item& item : queue_) {
    const Position& awaited = item.step.awaited;
    if (item.sequence <= sequence && awaited.stream != nullptr && awaited.stream->demanded_ < awaited.sequence) {
      awaited.stream->go_to(awaited.sequence);
    }
  }
  streams().changed.notify_all();
}

void Stream::work() {
  Streams& all = streams();
  std::unique_lock lock(all.mutex);
  for (;;) {
    if (queue_.empty() || !may_run(queue_.front())) {
      const std::uint64_t due = queue_.empty() ? kNever : queue_.front().due, time = clock_ns();
      if (due == kNever || due <= time) {  // it waits for the host, or for another stream
        all.changed.wait(lock);
      } else {
        all.changed.wait_for(lock, std::chrono::nanoseconds(due - time));
      }
      continue;
    }
    Item item = std::move(queue_.front());
    queue_.pop_front();
    is_running_ = true;
    lock.unlock();
    run(item.step.task);
    item.step = {};  // what the task holds is destroyed outside the lock
    lock.lock();
    is_running_ = false;
    done_ = item.sequence;
    all.changed.notify_all();
  }
}

void Stream::run(const Task& task) const {
  try {
    if (task && !testdev::device(device).lost) task();
  } catch (const std::exception& error) {
    const std::lock_guard lock(kernel_error().mutex);
    if (kernel_error().text.empty()) kernel_error().text = error.what();
  }
}

// ---------------------------------------------------------------------------------------------------------------------

Stream& stream_of(const c10::Stream& stream) { return find(stream.device_index(), stream.id()); }

Stream& current_stream(int device) { return find(device, current_ids().at(static_cast<std::size_t>(device))); }

c10::Stream exchange_current(const c10::Stream& stream) {
  c10::StreamId& id = current_ids().at(static_cast<std::size_t>(stream.device_index()));
  const c10::Stream previous(c10::Stream::UNSAFE, stream.device(), id);
  id = stream.id();
  return previous;
}

c10::Stream packed(const Stream& stream) {
  const c10::Device device(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(stream.device));
  return c10::Stream(c10::Stream::UNSAFE, device, stream.id);
}

namespace {

Stream& add_stream(Streams& all, int device) {
  auto& own = all.of_device.at(static_cast<std::size_t>(device));
  own.push_back(std::make_unique<Stream>(device, static_cast<c10::StreamId>(own.size())));
  return *own.back();
}

}  // namespace

Stream& new_stream(int device) {
  check_usable(device);
  const std::lock_guard lock(streams().mutex);
  return add_stream(streams(), device);
}

Stream& pooled_stream(int device) {
  constexpr std::size_t kPooled = 4;
  check_usable(device);
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  std::vector<Stream*>& own = all.pool.at(static_cast<std::size_t>(device));
  if (own.size() < kPooled) {
    own.push_back(&add_stream(all, device));
    return *own.back();
  }
  return *own[all.next_pooled[static_cast<std::size_t>(device)]++ % kPooled];
}

void set_schedule(Schedule schedule, std::uint64_t seed, std::uint64_t longest_delay_us) {
  for (int device = 0; device < kDevices; ++device) wait_for_device(device);
  plan().schedule = schedule;
  plan().seed = seed;
  plan().longest_delay_us = longest_delay_us;
}

void wait_for_device(int device) {
  if (switches().in_fork || testdev::device(device).lost) return;
  std::vector<Stream*> all;
  {
    const std::lock_guard lock(streams().mutex);
    for (const auto& stream : streams().of_device.at(static_cast<std::size_t>(device))) all.push_back(stream.get());
  }
  for (Stream* stream : all) stream->end().wait();
}

void throw_kernel_error() {
  std::string text;
  {
    const std::lock_guard lock(kernel_error().mutex);
    text.swap(kernel_error().text);
  }
  TORCH_CHECK(text.empty(), "testdev: a kernel failed: ", text);
}

}  // namespace testdev
