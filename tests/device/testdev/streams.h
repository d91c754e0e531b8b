// Streams: threads that run what was enqueued, in order, late on purpose. An order between two streams exists only where
// the program has made one with events. The lateness shows mistakes that a GPU's timing would hide.
#pragma once

#include <c10/core/Stream.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace testdev {

class Stream;

// A place in the work of a stream. The work before it has run once the stream is there.
struct Position {
  Stream* stream = nullptr;
  std::uint64_t sequence = 0;

  bool is_reached() const;
  void wait() const;  // by the host
};

struct Event {
  Position position;
};

// How late streams are. A stream runs at once what the host waits for, and all that it depends on.
enum class Schedule {
  eager,        // at once
  shuffled,     // each task at a random time of its own, in the order of its stream
  main_last,    // a device's first stream does only what the host waits for; the others run before, as far as they can
  others_last,  // the other way round
  last,         // every stream does only what the host waits for
};

class Stream {
 public:
  Stream(int device, c10::StreamId id);

  using Task = std::function<void()>;
  struct Step {  // a task, or a place of another stream that must be reached first
    Task task;
    Position awaited;
  };
  Position enqueue(Task task) { return add({std::move(task), {}}); }
  void wait_for(const Position& position);  // later tasks come after it
  Position now();                           // after what is enqueued by now
  Position end();                           // the same, of a stream that may be destroyed
  void destroy();                           // what is enqueued still runs; nothing can be added

  void begin_capture();
  std::vector<Step> end_capture();  // what was enqueued meanwhile, and did not run
  Position add(Step step);
  bool is_capturing();

  const int device;
  const c10::StreamId id;

 private:
  friend struct Position;
  struct Item {
    Step step;
    std::uint64_t sequence;
    std::uint64_t due;  // nanoseconds; kNever: when demanded
  };
  void work();
  void run(const Task& task) const;
  bool may_run(const Item& item) const;
  bool is_settled() const;
  void go_to(std::uint64_t sequence);
  std::uint64_t due_time();
  void check_accepts() const;

  std::deque<Item> queue_;
  std::uint64_t enqueued_ = 0, done_ = 0, demanded_ = 0, random_;
  bool has_thread_ = false, is_running_ = false, is_destroyed_ = false, captures_ = false;
  std::vector<Step> captured_;
};

Stream& stream_of(const c10::Stream& stream);
Stream& current_stream(int device);  // of this thread
c10::Stream exchange_current(const c10::Stream& stream);
c10::Stream packed(const Stream& stream);
Stream& new_stream(int device);
Stream& pooled_stream(int device);

void set_schedule(Schedule schedule, std::uint64_t seed, std::uint64_t longest_delay_us);
void wait_for_device(int device);

// The first exception of a kernel since the last call is thrown, as an error of a CUDA kernel appears at a later call.
void throw_kernel_error();

}  // namespace testdev
