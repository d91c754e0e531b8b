// The recorder of this process: the engine, and the session.
#pragma once

#include <atomic>

#include "sonde/sonde.h"

namespace sonde_torch {

struct Setup;  // the facts about a program in Python: python_setup.h

// One session. Never freed: an operator of another thread may still use the previous one.
struct Recording {
  const Setup* setup;                  // null in a program without Python
  std::atomic<bool> root_seen{false};  // a root with parameters was called

  explicit Recording(const Setup* values) : setup(values) {}
};

// The engine's function table, from the first session on. Null, or the reason why this adapter cannot use `table`.
const char* set_engine(const struct sonde_api& table);
bool has_engine();
const struct sonde_api& api();  // only if has_engine()

// The session that began last, which may have ended; null before the first.
Recording* recording();
void set_recording(Recording* begun);

// True if a session records: not before the first, not after one has ended, not in a forked child.
bool is_inert();
// Returns the previous value.
bool set_inert(bool inert);

// True in an inert process that begins to record with its first model: await_model() in capture.h.
bool awaits_model();
void set_awaits_model(bool awaits);

}  // namespace sonde_torch
