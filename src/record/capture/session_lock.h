// The session's lock. A process has one session at a time, so the compiler knows one lock for all that a session consists
// of: what is GUARDED_BY_SESSION or REQUIRES(session_lock) is used by whoever holds a SessionLock.
#pragma once

#include <mutex>

#include "ground/base/thread_annotations.h"

namespace sonde {

class CAPABILITY("mutex") SessionCapability {};
inline constexpr SessionCapability session_lock;
#define GUARDED_BY_SESSION GUARDED_BY(session_lock)

class SCOPED_CAPABILITY SessionLock {
 public:
  explicit SessionLock(std::mutex& mutex) ACQUIRE(session_lock) : guard_(mutex) {}
  ~SessionLock() RELEASE() {}  // NOLINT(modernize-use-equals-default): an annotation needs a body

 private:
  const std::lock_guard<std::mutex> guard_;
};

}  // namespace sonde
