#include "record/writer/recorder.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <iterator>
#include <thread>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "ground/base/clock.h"
#include "ground/base/mutex.h"
#include "ground/base/signals_blocked.h"
#include "ground/files/files.h"
#include "record/writer/forgotten.h"
#include "record/writer/hasher.h"
#include "record/writer/held_items.h"
#include "record/writer/item.h"
#include "record/writer/queue.h"
#include "record/writer/recording.h"
#include "record/writer/ring.h"
#include "record/writer/run_directory.h"

namespace sonde {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLongestUnflushed{20};
constexpr milliseconds kIdle{3600 * 1000};
// Records are small, but they are not part of the budget: a disk that hangs must not fill the memory.
constexpr std::size_t kMostQueued = 1 << 16;

// Records that the writer will never get; it is notified of them.
struct Dropped {
  std::vector<std::pair<std::uint64_t, std::uint64_t>> sequences;  // from, to (not included)
  std::uint64_t records = 0, bytes = 0;
};

// Overflow and exception modes choose after the op has run; a graph contains all ops.
bool waits_for_a_choice(const Plan& plan) {
  return plan.chooses_by_name() && plan.saved_data != SavedData::graph && !plan.searches();
}

bool is_chosen(const Record& record) {
  return record.selected || std::ranges::any_of(record.tensors, &TensorRecord::wanted);
}

}  // namespace

struct Recorder::State {
  State(const Plan& plan, const RunInfo& run, const Layout& naming)
      : layout(naming),
        waits_for_choice(waits_for_a_choice(plan)),
        rank(run.rank),
        waits(plan.sonde.when_full == WhenFull::wait),
        pool(plan.sonde.budget_bytes + plan.ring_bytes(),
             [this] {
               room_wanted = true;
               queue.wake();
             }),
        hasher(plan.makes_md5(), plan.wants(Category::sha1), plan.sonde.budget_bytes),
        recording(std::in_place, plan, run, naming, spare, hasher) {
    // Every container has the bytes of all its tensors.
    const bool shares_bytes = plan.wants_tensors() && naming.tensor_form() != TensorForm::container;
    if (plan.sonde.ring > 0) ring.emplace(plan, shares_bytes, spare, [this](Item&& item) { pass_on(std::move(item)); });
  }

  Layout layout;
  const bool waits_for_choice;
  const std::uint32_t rank;
  const bool waits;
  SpareTensors spare;
  BlockPool pool;  // outlives the queue and the recording, which hold its blocks
  Hasher hasher;
  Queue<Item> queue;
  const ::pid_t pid = ::getpid();
  std::atomic<std::uint64_t> sequence{0};
  std::atomic<bool> abandoned{false};
  std::atomic<bool> running{false};  // the thread exists
  std::atomic<bool> ran{false};      // it has existed
  std::atomic<bool> chosen{false};   // an op was chosen, if the plan chooses by name
  std::atomic<bool> stopping{false};
  std::atomic<bool> room_wanted{false};  // the host waits for a block
  std::atomic<int> owner{-1};

  Mutex life;  // starting and finishing
  bool finished GUARDED_BY(life) = false;
  std::thread thread;                        // is there while `running`
  std::vector<Item> known GUARDED_BY(life);  // definitions before the first chosen op
  Forgotten forgotten GUARDED_BY(life);
  std::atomic<std::uint64_t> held_records{0}, ops_forgotten{0};

  mutable Mutex news;  // what other threads read
  ConditionVariable flushed;
  std::uint64_t flush_wanted GUARDED_BY(news) = 0, flush_done GUARDED_BY(news) = 0;
  Totals totals GUARDED_BY(news);
  std::optional<Error> error GUARDED_BY(news);
  std::filesystem::path directory GUARDED_BY(news);  // empty until it is taken
  Dropped dropped GUARDED_BY(news);

  std::optional<Recording> recording;  // only the writer thread uses it
  std::optional<Ring> ring;            // before the queue; not after the pool, whose blocks it holds

  HeldItems held;

  void accept(Item&& item);
  bool push_brief(const Record& record);
  void hand_on(Item&& item);
  void pass_on(Item&& item);
  void wait_for_choice(Record&& record);
  void forget(StepId step);
  void start();
  void stop();
  void run();
  void work();
  void handle(Item& item);
  void push(Record&& record);
  void drop(Record& record);
  void skip_dropped();
  void publish(std::uint64_t flush_ticket);
  void fail(const std::string& why);
};

void Recorder::State::accept(Item&& item) {
  if (abandoned.load(std::memory_order_relaxed) || held.take(item)) return;
  hand_on(std::move(item));
}

// Returns false if the record must be pushed as it is. The plan's choice, the ring and a dump that is not yet certain
// look at whole records.
bool Recorder::State::push_brief(const Record& record) {
  if (ring || held.is_holding() || abandoned.load(std::memory_order_relaxed)) return false;
  if (!BriefOps::can_hold(record)) return false;
  if (!running.load(std::memory_order_acquire)) {
    // The thread starts with a record that is pushed as it is.
    const bool waits_on = waits_for_choice && !chosen.load() && !is_chosen(record);
    if (!waits_on || held_records.fetch_add(1) >= kMostQueued) return false;
  }
  const auto joins = [&](Item& last) {
    auto* ops = std::get_if<BriefOps>(&last);
    return ops != nullptr && ops->add(record);
  };
  if (queue.join(joins, kMostQueued)) return true;
  BriefOps ops(record.step);
  ops.add(record);
  return queue.try_push(Item(std::move(ops)), kMostQueued);
}

void Recorder::State::hand_on(Item&& item) {
  const auto* record = std::get_if<Record>(&item);
  if (record != nullptr && waits_for_choice && !chosen.load(std::memory_order_relaxed) && is_chosen(*record)) {
    chosen = true;
  }
  if (!ring) return pass_on(std::move(item));
  // The dump exists from the first step on: it says what it waits for.
  const bool begins = record != nullptr && record->kind == RecordKind::step_begin;
  if (begins && !waits_for_choice && !running.load(std::memory_order_acquire)) start();
  ring->add(std::move(item));
}

void Recorder::State::pass_on(Item&& item) {
  const auto* record = std::get_if<Record>(&item);
  if (record == nullptr) return queue.push(std::move(item));
  for (const TensorRecord& tensor : record->tensors) {
    if (tensor.bytes) pool.hand_to_writer(*tensor.bytes);
    if (tensor.late && tensor.late->bytes) pool.hand_to_writer(*tensor.late->bytes);
  }
  if (running.load(std::memory_order_acquire)) {
    push(std::move(std::get<Record>(item)));
  } else {
    wait_for_choice(std::move(std::get<Record>(item)));
  }
}

// Called before the thread runs.
void Recorder::State::wait_for_choice(Record&& record) {
  // A step without an end must not fill the memory.
  const bool waits_on = waits_for_choice && !chosen.load() && held_records.fetch_add(1) < kMostQueued;
  const bool starts = record.kind != RecordKind::note && !waits_on;
  const bool forgets = waits_on && record.kind == RecordKind::step_end;
  const StepId step = record.step;
  queue.push(Item(std::move(record)));
  if (starts) {
    start();
  } else if (forgets) {
    forget(step);
  }
}

// `step` is over, and the plan has chosen none of its ops: keeps only definitions that later steps may name.
void Recorder::State::forget(StepId step) {
  const Lock lock(life);
  if (running.load() || finished) return;
  held_records = 0;
  std::vector<Item> waiting;
  queue.take_all(waiting, milliseconds(0));
  for (Item& item : waiting) {
    const auto* record = std::get_if<Record>(&item);
    if (const auto* skip = std::get_if<Skip>(&item)) {
      forgotten.add(skip->from, skip->to);
    } else if (const auto* brief = std::get_if<BriefOps>(&item); brief != nullptr && brief->step() == step) {
      ops_forgotten += brief->size();
      // Called at once: the lock is held.
      brief->sequences([this](std::uint64_t from, std::uint64_t to)
                           NO_THREAD_SAFETY_ANALYSIS { forgotten.add(from, to); });
    } else if (brief != nullptr) {
      queue.push(std::move(item));
    } else if (record == nullptr) {
      known.push_back(std::move(item));
    } else if (record->step == step && record->kind != RecordKind::note) {
      if (record->kind == RecordKind::op && !record->completes) ++ops_forgotten;
      if (!record->completes) forgotten.add(record->sequence, record->sequence + 1);
    } else {
      queue.push(std::move(item));
    }
  }
}

void Recorder::State::start() {
  const Lock lock(life);
  if (running.load() || finished) return;
  std::vector<Item> waiting;
  queue.take_all(waiting, milliseconds(0));
  for (Item& item : known) queue.push(std::move(item));
  known.clear();
  for (const auto& [from, to] : forgotten.ranges()) queue.push(Item(Skip{from, to}));
  for (Item& item : waiting) queue.push(std::move(item));
  try {
    const SignalsBlocked blocked;
    thread = std::thread([this] { run(); });
    ran.store(true);
    running.store(true, std::memory_order_release);
  } catch (const std::exception& problem) {
    finished = true;
    stopping.store(true);
    pool.close();
    fail(std::string("cannot start the thread that writes: ") + problem.what());
  }
}

void Recorder::State::fail(const std::string& why) {
  const Lock lock(news);
  if (!error) error = Error{ErrorCode::io, why};
}

void Recorder::State::run() {
  ::pthread_setname_np(::pthread_self(), "sonde-writer");
  // After a failure work() only drops the items, so that nobody waits for a budget that is never returned.
  bool done = false;
  while (!done) {
    try {
      work();
      done = true;
    } catch (const std::exception& problem) {
      recording->fail(Error{ErrorCode::io, std::string("cannot go on recording: ") + problem.what()});
    }
  }
}

void Recorder::State::work() {
  if (owner.load() < 0 && !recording->error()) recording->open();
  owner.store(recording->owner());
  {
    const Lock lock(news);
    directory = recording->layout().rank_directory();
  }
  std::vector<Item> batch;
  Clock::time_point last_flush = Clock::now();
  while (true) {
    const bool last = stopping.load();
    std::uint64_t ticket = 0;
    bool flushes = false;
    {
      const Lock lock(news);
      ticket = flush_wanted;
      flushes = ticket > flush_done;
    }
    // The wake-up for this request may already have been consumed: do not wait for another.
    const bool goes_on = last || flushes || hasher.is_running();
    queue.take_all(batch, goes_on ? milliseconds(0) : recording->has_unflushed() ? kLongestUnflushed : kIdle);
    skip_dropped();
    for (Item& item : batch) {
      handle(item);
      if (Clock::now() - last_flush < kLongestUnflushed) continue;
      recording->hash(false);
      recording->flush_appends();
      last_flush = Clock::now();
    }
    recording->hash(room_wanted.exchange(false));
    recording->flush_appends();  // batches are large: this happens at most a few hundred times a second
    last_flush = Clock::now();
    if (flushes) recording->flush_all();
    if (last && batch.empty()) break;
    publish(ticket);
  }
  skip_dropped();
  recording->close();
  owner.store(-1);
  publish(~std::uint64_t{0});
}

void Recorder::State::handle(Item& item) {
  if (auto* record = std::get_if<Record>(&item)) {
    recording->add(std::move(*record));
  } else if (const auto* brief = std::get_if<BriefOps>(&item)) {
    brief->expand([this] { return spare.take(); }, [this](Record&& op) { recording->add(std::move(op)); });
  } else if (const auto* skip = std::get_if<Skip>(&item)) {
    recording->skip(skip->from, skip->to);
  } else if (const auto* note = std::get_if<Note>(&item)) {
    recording->note(note->text);
  } else {
    std::visit(
        [this]<typename T>(const T& definition) {
          constexpr bool is_definition = !std::is_same_v<T, Record> && !std::is_same_v<T, BriefOps> &&
                                         !std::is_same_v<T, Skip> && !std::is_same_v<T, Note>;
          if constexpr (is_definition) recording->define(definition);
        },
        item);
  }
}

void Recorder::State::push(Record&& record) {
  const bool can_miss = record.kind == RecordKind::op || record.kind == RecordKind::parameter;
  Item item(std::move(record));
  if (waits || ring) {  // what the ring writes was asked for
    queue.push(std::move(item), kMostQueued);
  } else if (!can_miss) {
    queue.push(std::move(item));
  } else if (!queue.try_push(std::move(item), kMostQueued)) {
    drop(std::get<Record>(item));
  }
}

void Recorder::State::drop(Record& record) {
  const Lock lock(news);
  ++dropped.records;
  for (const TensorRecord& tensor : record.tensors) dropped.bytes += tensor.bytes ? tensor.bytes->bytes : 0;
  if (record.completes) return;  // its sequence belongs to an earlier record
  auto& ranges = dropped.sequences;
  if (ranges.empty() || ranges.back().second != record.sequence) ranges.emplace_back(record.sequence, record.sequence);
  ++ranges.back().second;
}

void Recorder::State::skip_dropped() {
  Dropped missed;
  {
    const Lock lock(news);
    std::swap(missed, dropped);
  }
  recording->count_dropped(missed.records, missed.bytes);
  for (const auto& [from, to] : missed.sequences) {
    recording->skip(from, to);
  }
}

void Recorder::State::publish(std::uint64_t flush_ticket) {
  {
    const Lock lock(news);
    totals = recording->totals();
    if (!error) error = recording->error();
    flush_done = flush_ticket;
  }
  flushed.notify_all();
}

void Recorder::State::stop() {
  const Lock lock(life);
  if (finished) return;
  finished = true;
  pool.close();
  stopping.store(true);
  if (!running.load()) return;
  queue.wake();
  thread.join();
  running.store(false);
}

Recorder::Recorder() = default;

Recorder::~Recorder() {
  finish();
  // In a forked child the locks may belong to threads that do not exist there.
  if (state_->abandoned.load()) static_cast<void>(state_.release());
}

namespace {

// In a tree with ranks, a process whose rank another one records gets a directory of its own: Recording.
bool has_directories_for_more(const Plan& plan, RunInfo run, const Layout& layout) {
  ++run.rank;
  return Layout::make(plan, run).own_directory() != layout.own_directory();
}

Status check_place(const Plan& plan, const RunInfo& run, const Layout& layout) {
  if (Status free = check_not_owned(layout); !free && !has_directories_for_more(plan, run, layout)) return free.error();
  if (Status fit = check_tree(layout); !fit) return fit.error();
  return check_can_write(layout.own_directory());
}

}  // namespace

Result<std::unique_ptr<Recorder>> Recorder::open(const Plan& plan, const RunInfo& run, bool held) {
  const Layout layout = Layout::make(plan, run);
  if (Status fit = check_place(plan, run, layout); !fit) return fit.error();
  std::unique_ptr<Recorder> recorder(new Recorder);
  recorder->state_ = std::make_unique<State>(plan, run, layout);
  if (held) recorder->state_->held.hold();
  return recorder;
}

Status Recorder::release(const Plan& plan, const RunInfo& run) {
  State& state = *state_;
  const auto prepare = [&]() -> Status {
    if (run.rank == state.rank) return {};
    const Layout layout = Layout::make(plan, run);
    if (Status fit = check_place(plan, run, layout); !fit) return fit.error();
    state.layout = layout;
    state.recording.emplace(plan, run, layout, state.spare, state.hasher);
    return {};
  };
  return state.held.release(prepare, [&](Item&& item) { state.hand_on(std::move(item)); });
}

void Recorder::discard() { state_->held.discard(); }

std::uint64_t Recorder::held_bytes() const { return state_->held.bytes(); }

const Layout& Recorder::layout() const { return state_->layout; }

std::filesystem::path Recorder::directory() const {
  const Lock lock(state_->news);
  return state_->directory.empty() ? state_->layout.rank_directory() : state_->directory;
}
BlockPool& Recorder::blocks() { return state_->pool; }

// Records that wait for a choice may be forgotten, and their blocks must not stay behind.
bool Recorder::can_hash(std::uint64_t bytes) const {
  return bytes >= Hasher::kLeastBytes && state_->running.load(std::memory_order_acquire) && !state_->stopping.load() &&
         !state_->abandoned.load(std::memory_order_relaxed);
}

std::shared_ptr<HashTexts> Recorder::hash(BlockPtr bytes, std::size_t item_bytes, bool only_here) {
  if (only_here) state_->pool.hand_to_writer(*bytes);
  return state_->hasher.add(std::move(bytes), item_bytes);
}

void Recorder::define(const Site& site) { state_->accept(Item(site)); }

void Recorder::define(const OpName& name) { state_->accept(Item(name)); }

void Recorder::define(const Attributes& attributes) { state_->accept(Item(attributes)); }

void Recorder::define(const SourceText& text) { state_->accept(Item(text)); }

std::vector<TensorRecord> Recorder::spare_tensors() { return state_->spare.take(); }

std::uint64_t Recorder::next_sequence() { return state_->sequence.fetch_add(1, std::memory_order_relaxed); }

void Recorder::push(Record&& record) {
  if (state_->stopping.load() || state_->push_brief(record)) return;
  state_->accept(Item(std::move(record)));
}

void Recorder::skip(std::uint64_t sequence) { skip(sequence, sequence + 1); }

void Recorder::skip(std::uint64_t from, std::uint64_t to) { state_->accept(Item(Skip{from, to})); }

void Recorder::flush() {
  State& state = *state_;
  if (state.abandoned.load() || !state.running.load()) return;
  const Lock lock(state.news);
  const std::uint64_t ticket = ++state.flush_wanted;
  state.queue.wake();
  while (state.flush_done < ticket) state.flushed.wait_for(state.news, kForever);
}

Ring* Recorder::ring() { return state_->ring ? &*state_->ring : nullptr; }

const Ring* Recorder::ring() const { return state_->ring ? &*state_->ring : nullptr; }

std::uint64_t Recorder::write_ring(const std::string& why) {
  State& state = *state_;
  if (!state.ring || state.abandoned.load() || state.stopping.load()) return 0;
  const std::uint64_t steps = state.ring->write(why);
  flush();
  return steps;
}

std::uint64_t Recorder::writer_nanoseconds() const {
  ::clockid_t clock{};
  timespec time{};
  if (!state_->running.load() || ::pthread_getcpuclockid(state_->thread.native_handle(), &clock) != 0) return 0;
  if (::clock_gettime(clock, &time) != 0) return 0;
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

void Recorder::note(std::string text) {
  if (!state_->stopping.load()) state_->accept(Item(Note{std::move(text)}));
}

Totals Recorder::finish() {
  if (::getpid() != state_->pid) abandon();
  if (state_->abandoned.load()) return {};
  if (state_->ring && !state_->stopping.load()) {
    const std::string held = state_->ring->finish();
    if (state_->ran.load()) state_->queue.push(Item(Note{held}));
  }
  state_->stop();
  return totals();
}

Totals Recorder::totals() const {
  if (state_->abandoned.load()) return {};
  const Lock lock(state_->news);
  Totals totals = state_->totals;
  totals.nothing_chosen = state_->waits_for_choice && !state_->chosen;
  if (!state_->ran) totals.ops = state_->ops_forgotten;
  return totals;
}

std::optional<Error> Recorder::error() const {
  if (state_->abandoned.load()) return std::nullopt;
  const Lock lock(state_->news);
  return state_->error;
}

void Recorder::abandon() {
  if (state_->abandoned.exchange(true)) return;
  state_->pool.abandon();
  // The lock belongs to the open file, which the child shares: kept open it would outlive the parent.
  const int owner = state_->owner.load();
  if (owner >= 0) ::close(owner);
}

}  // namespace sonde
