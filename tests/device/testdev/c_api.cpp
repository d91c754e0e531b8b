// The functions that __init__.py calls, and that a program in C may call.

#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <cstring>
#include <exception>

#include "device.h"
#include "generator.h"
#include "memory.h"
#include "ops.h"
#include "streams.h"

namespace {

thread_local std::string last_error;

// Runs `body`; an exception becomes a text for testdev_error() and the answer -1.
template <class Body>
int answer(const Body& body) {
  try {
    body();
    return 0;
  } catch (const c10::Error& error) {
    last_error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    last_error = error.what();
  }
  return -1;
}

testdev::Stream& stream_at(int device, long id) {
  const c10::Device on(c10::DeviceType::PrivateUse1, static_cast<c10::DeviceIndex>(device));
  return testdev::stream_of(c10::Stream(c10::Stream::UNSAFE, on, static_cast<c10::StreamId>(id)));
}

struct Graph {
  testdev::Stream* stream;
  std::vector<testdev::Stream::Step> steps;
};

}  // namespace

extern "C" {

const char* testdev_error() { return last_error.c_str(); }

void testdev_register() {
  testdev::device(0);
  testdev::register_guard();
  testdev::register_ops();
}

int testdev_devices() { return testdev::kDevices; }
int testdev_counters() { return static_cast<int>(testdev::Counter::count); }
const char* testdev_counter_name(int which) { return testdev::kCounterNames.at(static_cast<std::size_t>(which)); }
unsigned long testdev_counter(int device, int which) {
  return testdev::counter(device, static_cast<testdev::Counter>(which));
}

// All but what is there now: memory in use stays in use.
void testdev_reset_counters(int device) {
  using testdev::Counter;
  for (int which = 0; which < testdev_counters(); ++which) {
    const auto name = static_cast<Counter>(which);
    if (name != Counter::allocated_bytes && name != Counter::reserved_bytes) testdev::counter(device, name) = 0;
  }
  testdev::counter(device, Counter::peak_bytes) = testdev::counter(device, Counter::allocated_bytes).load();
}

void testdev_set_limit(int device, unsigned long bytes) { testdev::device(device).limit_bytes = bytes; }
void testdev_lose(int device) { testdev::device(device).lost = true; }
void testdev_set_events(int on) { testdev::switches().has_events = on != 0; }
void testdev_set_pinned(int on) { testdev::switches().has_pinned = on != 0; }
void testdev_set_schedule(int schedule, unsigned long seed, unsigned long longest_delay_us) {
  testdev::set_schedule(static_cast<testdev::Schedule>(schedule), seed, longest_delay_us);
}
int testdev_empty_cache(int device) {
  return answer([=] { testdev::empty_cache(device); });
}
void testdev_finish() {
  for (int device = 0; device < testdev::kDevices; ++device) testdev::wait_for_device(device);
}

int testdev_synchronize(int device) {
  return answer([=] {
    c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)
        ->synchronizeDevice(static_cast<c10::DeviceIndex>(device));
  });
}
int testdev_destroy_stream(int device, long id) {
  return answer([=] { stream_at(device, id).destroy(); });
}
int testdev_begin_capture(int device, long id) {
  return answer([=] { stream_at(device, id).begin_capture(); });
}
void* testdev_end_capture(int device, long id) {
  testdev::Stream& stream = stream_at(device, id);
  return new Graph{&stream, stream.end_capture()};
}
int testdev_replay(void* graph) {
  const auto* captured = static_cast<Graph*>(graph);
  return answer([=] {
    for (const auto& step : captured->steps) captured->stream->add(step);
  });
}

// Copies of bytes without PyTorch's care for them, as a program's own kernel does.
int testdev_copy_to_host(int device, long stream, void* to, const void* from, unsigned long bytes) {
  return answer([=] {
    const char* elements = testdev::real(device, from);
    stream_at(device, stream).enqueue([=] { std::memcpy(to, elements, bytes); });
  });
}

// When the stream is there, on its thread.
int testdev_call(int device, long stream, void (*function)()) {
  return answer([=] { stream_at(device, stream).enqueue(function); });
}

void testdev_seed(int device, unsigned long seed) {
  at::Generator generator = testdev::default_generator(device);
  generator.set_current_seed(seed);
}
void testdev_random_state(int device, unsigned long* seed, unsigned long* launched) {
  const at::Generator& generator = testdev::default_generator(device);
  *seed = generator.current_seed();
  *launched = generator.get_offset();
}
void testdev_set_random_state(int device, unsigned long seed, unsigned long launched) {
  at::Generator generator = testdev::default_generator(device);
  generator.set_current_seed(seed);
  generator.set_offset(launched);
}

}  // extern "C"
