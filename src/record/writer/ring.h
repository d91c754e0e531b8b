// Ring: keeps the records of the last steps in memory, and hands them on when something asks for them
// (sonde_settings.ring).
//
// A step is kept as a whole: its records, and the bytes of every tensor that one of them names. Equal tensors are read
// once, so the bytes may have come with a record of a step that has left the ring; they stay as long as a record in the
// ring has their number.
//
// After a write the ring is empty. The open steps go on to the writer as they run; what was known to be read already is
// forgotten with them, and read again by the next step.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

#include "dump/journal/record.h"
#include "ground/base/mutex.h"
#include "plan/config/plan.h"
#include "record/writer/failure_watch.h"
#include "record/writer/forgotten.h"
#include "record/writer/item.h"
#include "record/writer/spare_tensors.h"

namespace sonde {

struct RingReport {
  std::uint64_t writes = 0, steps_written = 0, steps_left_out = 0;
  std::uint64_t most_steps = 0, most_bytes = 0;  // held at a time
  std::uint64_t cut_steps = 0;                   // that lost records or bytes, because ring_bytes was full
  std::uint64_t failures = 0;                    // steps in which a NaN or infinity arrived
  std::string last_reason;
};

// Any thread. `hand_on` is called with the ring's lock held.
class Ring {
 public:
  Ring(const Plan& plan, bool keeps_bytes, SpareTensors& spare, std::function<void(Item&&)> hand_on);

  void add(Item&& item);
  // Everything that is held goes to the writer; returns the number of steps. `why`: "SIGUSR2".
  std::uint64_t write(const std::string& why);
  // Forgets what is held; nothing is added afterwards. Returns a line for the journal.
  std::string finish();
  RingReport report() const;

  // --- for the reader of the host's memory ---
  // A step begins in the program. Its record may come much later, when devices have been read.
  void step_begins();
  // Bytes with this number are on their way to the ring, with a record that is not yet pushed.
  void expect(std::uint64_t content);
  // Whether a record may name these bytes instead of having them. They are kept for it.
  bool holds(std::uint64_t content);

 private:
  struct Step {
    StepId id;
    bool ended = false;
    std::uint64_t cut = 0;  // records that were dropped from its beginning
    Record begin;
    std::deque<Record> records;
    std::uint64_t bytes = 0;  // of records, without tensors
  };
  struct Bytes {
    // lost: only a record that names them is known.
    enum class State : std::uint8_t { lost, expected, held, written } state = State::lost;
    BlockPtr block;
    std::uint64_t records = 0;  // in the ring, that name them
    std::uint64_t used = 0;     // the time of the last use, in steps
  };
  struct Failing {
    bool now = false, before = false;  // in the open step, and in the one before
  };
  struct Gone {
    StepId id;
    bool written = false;
  };

  void add_record(Record&& record) REQUIRES(mutex_);
  void begin_step(Record&& record) REQUIRES(mutex_);
  void keep(Step& step, Record&& record) REQUIRES(mutex_);
  void take_bytes(Record& record) REQUIRES(mutex_);
  void give_bytes(Record& record) REQUIRES(mutex_);
  void pass_on(Record&& record) REQUIRES(mutex_);
  void write_locked(const std::string& why) REQUIRES(mutex_);
  void skip(const Record& record) REQUIRES(mutex_);
  void release(const Record& record) REQUIRES(mutex_);
  void drop_step(std::size_t index) REQUIRES(mutex_);
  void remember_gone(StepId id, bool written) REQUIRES(mutex_);
  void make_room() REQUIRES(mutex_);
  void forget_unused(bool now) REQUIRES(mutex_);
  void define_attributes(std::uint32_t id) REQUIRES(mutex_);
  void note_failure(std::uint32_t graph, const std::string& what) REQUIRES(mutex_);
  Step* find(StepId id) REQUIRES(mutex_);
  std::size_t oldest_to_drop() const REQUIRES(mutex_);
  bool is_passing(StepId id) const REQUIRES(mutex_);

  const std::uint64_t most_steps_, most_bytes_, most_writes_;
  const bool keeps_bytes_;  // records name bytes that came with another one
  SpareTensors& spare_;
  const std::function<void(Item&&)> hand_on_;

  mutable Mutex mutex_;
  std::deque<Step> steps_ GUARDED_BY_MUTEX;       // as they began
  std::vector<StepId> passing_ GUARDED_BY_MUTEX;  // open, and written
  std::deque<Gone> gone_ GUARDED_BY_MUTEX;        // the last ones, for records that come late
  std::unordered_map<std::uint64_t, Bytes> contents_ GUARDED_BY_MUTEX;
  std::uint64_t bytes_ GUARDED_BY_MUTEX = 0;  // of all that is held
  std::uint64_t time_ GUARDED_BY_MUTEX = 0;   // steps whose records have come
  std::uint64_t begun_ GUARDED_BY_MUTEX = 0;  // steps that have begun in the program
  // Of the last records: those that were defined most recently, and those before.
  std::unordered_map<std::uint32_t, Attributes> attributes_ GUARDED_BY_MUTEX, older_attributes_ GUARDED_BY_MUTEX;
  Forgotten forgotten_ GUARDED_BY_MUTEX;
  FailureWatch watch_ GUARDED_BY_MUTEX;
  std::unordered_map<std::uint32_t, Failing> failing_ GUARDED_BY_MUTEX;  // by graph
  std::uint64_t automatic_writes_ GUARDED_BY_MUTEX = 0;
  bool finished_ GUARDED_BY_MUTEX = false;
  bool reported_limit_ GUARDED_BY_MUTEX = false;
  RingReport report_ GUARDED_BY_MUTEX;
};

}  // namespace sonde
