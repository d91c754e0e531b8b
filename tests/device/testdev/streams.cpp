#include "streams.h"

#include <c10/util/Exception.h>

#include <array>
#include <atomic>
#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include "device.h"

namespace testdev {
namespace {

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();
constexpr std::size_t kLongestQueue = 1024;  // as of a GPU's driver; older tasks become due

struct Plan {
  std::atomic<Schedule> schedule{Schedule::shuffled};
  std::atomic<std::uint64_t> seed{0}, longest_delay_us{300};
};

struct Streams {
  std::mutex mutex;
  std::array<std::vector<std::unique_ptr<Stream>>, kDevices> of_device;  // by id
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
  const std::lock_guard lock(stream->mutex_);
  return stream->done_ >= sequence;
}

void Position::demand() const {
  const std::lock_guard lock(stream->mutex_);
  stream->demanded_ = std::max(stream->demanded_, sequence);
  stream->wake_.notify_one();
}

void Position::wait() const {
  if (stream == nullptr) return;
  demand();
  std::unique_lock lock(stream->mutex_);
  stream->progress_.wait(lock, [&] { return stream->done_ >= sequence; });
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

void Stream::check_accepts() {
  check_usable(device);
  TORCH_CHECK(!is_destroyed_, "testdev: stream ", id, " of device ", device, " was destroyed");
}

Position Stream::enqueue(Task task) {
  check_usable(device);  // before the lock, which another thread may have held when the process was forked
  const std::lock_guard lock(mutex_);
  check_accepts();
  if (captures_) {
    captured_.push_back(std::move(task));
    return {this, enqueued_};
  }
  if (!has_thread_) {
    has_thread_ = true;
    std::thread([this] { work(); }).detach();
  }
  queue_.push_back({std::move(task), ++enqueued_, due_time()});
  if (queue_.size() > kLongestQueue) demanded_ = std::max(demanded_, enqueued_ - kLongestQueue);
  wake_.notify_one();
  return {this, enqueued_};
}

Position Stream::now() {
  check_usable(device);
  const std::lock_guard lock(mutex_);
  check_accepts();
  return {this, enqueued_};
}

Position Stream::end() {
  const std::lock_guard lock(mutex_);
  return {this, enqueued_};
}

void Stream::wait_for(const Position& position) {
  if (position.stream == nullptr || position.stream == this) return;
  count(device, Counter::stream_waits);
  enqueue([position] { position.wait(); });
}

void Stream::destroy() {
  const std::lock_guard lock(mutex_);
  TORCH_CHECK(id != 0, "testdev: the first stream cannot be destroyed");
  is_destroyed_ = true;
}

void Stream::begin_capture() {
  const std::lock_guard lock(mutex_);
  captures_ = true;
}

std::vector<Stream::Task> Stream::end_capture() {
  const std::lock_guard lock(mutex_);
  captures_ = false;
  return std::move(captured_);
}

bool Stream::is_capturing() {
  const std::lock_guard lock(mutex_);
  return captures_;
}

void Stream::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (queue_.empty()) {
      wake_.wait(lock);
      continue;
    }
    const Item& next = queue_.front();
    const std::uint64_t time = clock_ns();
    if (next.sequence > demanded_ && next.due > time) {
      if (next.due == kNever) {
        wake_.wait(lock);
      } else {
        wake_.wait_for(lock, std::chrono::nanoseconds(next.due - time));
      }
      continue;
    }
    const Item item = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    try {
      if (!testdev::device(device).lost) item.task();
    } catch (const std::exception& error) {
      const std::lock_guard error_lock(kernel_error().mutex);
      if (kernel_error().text.empty()) kernel_error().text = error.what();
    }
    lock.lock();
    done_ = item.sequence;
    progress_.notify_all();
  }
}

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

Stream& new_stream(int device) {
  check_usable(device);
  Streams& all = streams();
  const std::lock_guard lock(all.mutex);
  auto& own = all.of_device.at(static_cast<std::size_t>(device));
  own.push_back(std::make_unique<Stream>(device, static_cast<c10::StreamId>(own.size())));
  return *own.back();
}

Stream& pooled_stream(int device) {
  constexpr std::size_t kPooled = 4;
  static auto* pool = new std::array<std::vector<Stream*>, kDevices>;
  static auto* mutex = new std::mutex;
  const std::lock_guard lock(*mutex);
  std::vector<Stream*>& own = pool->at(static_cast<std::size_t>(device));
  if (own.size() < kPooled) {
    own.push_back(&new_stream(device));
    return *own.back();
  }
  return *own[streams().next_pooled[static_cast<std::size_t>(device)]++ % kPooled];
}

void set_schedule(Schedule schedule, std::uint64_t seed, std::uint64_t longest_delay_us) {
  for (int device = 0; device < kDevices; ++device) wait_for_device(device);
  plan().schedule = schedule;
  plan().seed = seed;
  plan().longest_delay_us = longest_delay_us;
}

void wait_for_device(int device) {
  if (switches().in_fork || testdev::device(device).lost) return;
  std::vector<Position> ends;
  {
    Streams& all = streams();
    const std::lock_guard lock(all.mutex);
    for (const auto& stream : all.of_device.at(static_cast<std::size_t>(device))) ends.push_back(stream->end());
  }
  for (const Position& end : ends) end.wait();
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
