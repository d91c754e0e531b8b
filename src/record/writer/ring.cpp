#include "record/writer/ring.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "ground/base/text.h"

namespace sonde {
namespace {

constexpr std::size_t kMostGone = 64;
constexpr const char* kLost = "not in the ring any more: ring_bytes was full";

std::uint64_t bytes_of(const Record& record) {
  return sizeof(Record) + record.tensors.capacity() * sizeof(TensorRecord);
}

// Whether the writer makes a file of it.
bool wants_bytes(const TensorRecord& tensor) {
  return tensor.wanted && tensor.skipped == nullptr && tensor.content != 0;
}

std::string megabytes(std::uint64_t bytes) { return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6); }

}  // namespace

Ring::Ring(const Plan& plan, bool keeps_bytes, SpareTensors& spare, std::function<void(Item&&)> hand_on)
    : most_steps_(plan.sonde.ring),
      most_bytes_(plan.sonde.ring_bytes),
      most_writes_(plan.sonde.ring_writes),
      keeps_bytes_(keeps_bytes),
      spare_(spare),
      hand_on_(std::move(hand_on)) {}

void Ring::add(Item&& item) {
  const Lock lock(mutex_);
  if (finished_) return;
  if (auto* record = std::get_if<Record>(&item)) return add_record(std::move(*record));
  if (auto* attributes = std::get_if<Attributes>(&item)) {
    // A number in a call may be new each time; the ones that left the ring must not fill the memory or the disk.
    if (attributes_.size() >= kMostAttributesKnown) older_attributes_ = std::exchange(attributes_, {});
    attributes_[attributes->id] = std::move(*attributes);
    return;
  }
  if (const auto* skip = std::get_if<Skip>(&item)) return forgotten_.add(skip->from, skip->to);
  if (const auto* site = std::get_if<Site>(&item)) watch_.define(*site);
  if (const auto* name = std::get_if<OpName>(&item)) watch_.define(*name);
  hand_on_(std::move(item));
}

void Ring::add_record(Record&& record) {
  if (record.kind == RecordKind::note) return hand_on_(std::move(record));
  const std::string failure = watch_.look(record);
  const StepId id = record.step;
  const bool ends = record.kind == RecordKind::step_end;
  if (record.kind == RecordKind::step_begin) {
    begin_step(std::move(record));
  } else if (is_passing(id)) {
    pass_on(std::move(record));
  } else if (Step* step = find(id)) {
    keep(*step, std::move(record));
  } else {
    const auto gone = std::ranges::find(gone_, id, &Gone::id);
    if (gone != gone_.end() && gone->written) {
      pass_on(std::move(record));
    } else {
      skip(record);
    }
  }
  if (ends && std::erase(passing_, id) > 0 && passing_.empty()) {
    // The tensors of the next step belong to the ring again.
    std::erase_if(contents_, [](const auto& item) { return item.second.state == Bytes::State::written; });
  }
  if (!failure.empty()) note_failure(id.graph, failure);
  make_room();
  report_.most_bytes = std::max(report_.most_bytes, bytes_);
}

void Ring::begin_step(Record&& record) {
  begun_ = std::max(begun_, ++time_);
  Failing& failing = failing_[record.step.graph];
  failing.before = std::exchange(failing.now, false);
  if (is_passing(record.step)) return pass_on(std::move(record));
  if (Step* known = find(record.step); known != nullptr && !known->ended) return keep(*known, std::move(record));
  std::erase_if(gone_, [&](const Gone& gone) { return gone.id == record.step; });
  std::uint64_t held = 0;
  for (const Step& step : steps_) held += step.id.graph == record.step.graph ? 1 : 0;
  for (std::size_t i = 0; held >= most_steps_ && i < steps_.size();) {
    if (steps_[i].id.graph != record.step.graph) {
      ++i;
      continue;
    }
    drop_step(i);
    --held;
  }
  Step& step = steps_.emplace_back();
  step.id = record.step;
  step.bytes = bytes_of(record);
  step.begin = std::move(record);
  bytes_ += step.bytes;
  report_.most_steps = std::max<std::uint64_t>(report_.most_steps, steps_.size());
  forget_unused(false);
}

void Ring::keep(Step& step, Record&& record) {
  if (record.kind == RecordKind::step_end) step.ended = true;
  take_bytes(record);
  if (record.tensors.capacity() > record.tensors.size() + 2) {
    std::vector<TensorRecord> roomy(record.tensors.size());
    roomy.swap(record.tensors);
    std::ranges::move(roomy, record.tensors.begin());
    spare_.give(std::move(roomy));
  }
  const std::uint64_t bytes = bytes_of(record);
  step.bytes += bytes;
  bytes_ += bytes;
  step.records.push_back(std::move(record));
}

// The bytes of its tensors, by their numbers.
void Ring::take_bytes(Record& record) {
  for (TensorRecord& tensor : record.tensors) {
    if (!keeps_bytes_ || !wants_bytes(tensor)) {
      if (tensor.bytes) bytes_ += tensor.bytes->capacity;
      continue;
    }
    Bytes& bytes = contents_[tensor.content];
    ++bytes.records;
    bytes.used = std::max(bytes.used, time_);
    if (!tensor.bytes) continue;
    if (bytes.block) bytes_ -= bytes.block->capacity;
    bytes_ += tensor.bytes->capacity;
    bytes.block = std::move(tensor.bytes);
    bytes.state = Bytes::State::held;
  }
}

// The first record that is written with a number gets the bytes; the writer knows them from then on.
void Ring::give_bytes(Record& record) {
  for (TensorRecord& tensor : record.tensors) {
    if (!keeps_bytes_ || !wants_bytes(tensor)) continue;
    const auto found = contents_.find(tensor.content);
    if (found == contents_.end() || found->second.state == Bytes::State::lost) {
      if (tensor.bytes) {
        contents_[tensor.content].state = Bytes::State::written;
      } else {
        tensor.skipped = kLost;
      }
      continue;
    }
    Bytes& bytes = found->second;
    if (!tensor.bytes && bytes.block) {
      bytes_ -= bytes.block->capacity;
      tensor.bytes = std::move(bytes.block);
    }
    if (tensor.bytes) bytes.state = Bytes::State::written;
  }
}

void Ring::pass_on(Record&& record) {
  if (record.attributes != 0) define_attributes(record.attributes);
  give_bytes(record);
  hand_on_(std::move(record));
}

void Ring::define_attributes(std::uint32_t id) {
  for (auto* known : {&attributes_, &older_attributes_}) {
    const auto found = known->find(id);
    if (found == known->end()) continue;
    // Defined once in the journal; an empty list of values marks it, since no attributes are empty.
    if (found->second.id != 0) hand_on_(Item(std::exchange(found->second, {})));
    return;
  }
}

std::uint64_t Ring::write(const std::string& why) {
  const Lock lock(mutex_);
  if (finished_) return 0;
  const std::uint64_t before = report_.steps_written;
  write_locked(why);
  return report_.steps_written - before;
}

void Ring::write_locked(const std::string& why) {
  if (steps_.empty()) return;
  ++report_.writes;
  report_.last_reason = why;
  for (const auto& [from, to] : forgotten_.ranges()) hand_on_(Item(Skip{from, to}));
  forgotten_.clear();
  std::vector<std::string> numbers;
  const std::uint64_t held = bytes_;
  for (Step& step : steps_) {
    numbers.push_back((step.id.graph == 0 ? "step " : fmt::format("graph {} step ", step.id.graph)) +
                      std::to_string(step.id.number) +
                      (step.cut > 0 ? fmt::format(" without its first {}", count_text(step.cut, "record")) : ""));
    release(step.begin);
    pass_on(std::move(step.begin));
    for (Record& record : step.records) {
      release(record);
      pass_on(std::move(record));
    }
    if (!step.ended) passing_.push_back(step.id);
    remember_gone(step.id, true);
    ++report_.steps_written;
  }
  steps_.clear();
  hand_on_(Item(Note{fmt::format("ring: wrote {} ({}): {}", megabytes(held), fmt::join(numbers, ", "), why)}));
  if (passing_.empty()) {
    std::erase_if(contents_, [](const auto& item) { return item.second.state == Bytes::State::written; });
  }
}

void Ring::note_failure(std::uint32_t graph, const std::string& what) {
  Failing& failing = failing_[graph];
  if (std::exchange(failing.now, true)) return;
  ++report_.failures;
  // Once a NaN has come, every step has one: the first of them is the one of interest.
  if (failing.before) return;
  if (automatic_writes_ < most_writes_) {
    ++automatic_writes_;
    return write_locked(what);
  }
  if (std::exchange(reported_limit_, true)) return;
  hand_on_(Item(Note{fmt::format("ring: not written for {}: ring_writes {} is reached", what, most_writes_)}));
}

void Ring::skip(const Record& record) {
  if (!record.completes) forgotten_.add(record.sequence, record.sequence + 1);
}

// It leaves the ring.
void Ring::release(const Record& record) {
  bytes_ -= bytes_of(record);
  for (const TensorRecord& tensor : record.tensors) {
    if (tensor.bytes) bytes_ -= tensor.bytes->capacity;
    if (!keeps_bytes_ || !wants_bytes(tensor)) continue;
    const auto found = contents_.find(tensor.content);
    if (found != contents_.end() && found->second.records > 0) --found->second.records;
  }
}

void Ring::drop_step(std::size_t index) {
  Step& step = steps_[index];
  skip(step.begin);
  release(step.begin);
  for (const Record& record : step.records) {
    skip(record);
    release(record);
  }
  remember_gone(step.id, false);
  steps_.erase(steps_.begin() + static_cast<std::ptrdiff_t>(index));
  ++report_.steps_left_out;
}

void Ring::remember_gone(StepId id, bool written) {
  gone_.push_back({id, written});
  if (gone_.size() > kMostGone) gone_.pop_front();
}

// Bytes that no record in the ring names. `now`: also those that an op of this step or the one before has found known,
// and whose record may still come: it then says that they are lost.
void Ring::forget_unused(bool now) {
  std::uint64_t freed = 0;
  std::erase_if(contents_, [&freed, now, time = time_](const auto& item) {
    const Bytes& bytes = item.second;
    if (bytes.records > 0) return false;
    if (now ? !bytes.block : bytes.used + 1 >= time) return false;
    if (bytes.block) freed += bytes.block->capacity;
    return true;
  });
  bytes_ -= freed;
}

// The first step that has ended; if none has, the first one.
std::size_t Ring::oldest_to_drop() const {
  const auto ended = std::ranges::find(steps_, true, &Step::ended);
  return ended == steps_.end() ? 0 : static_cast<std::size_t>(ended - steps_.begin());
}

void Ring::make_room() {
  while (bytes_ > most_bytes_ && steps_.size() > 1) {
    drop_step(oldest_to_drop());
    ++report_.cut_steps;
    forget_unused(true);
  }
  if (bytes_ <= most_bytes_ || steps_.empty()) return;
  // One step that is larger than the ring: loses its first records, a quarter at a time.
  Step& step = steps_.front();
  if (step.cut == 0) ++report_.cut_steps;
  while (bytes_ > most_bytes_ / 4 * 3 && !step.records.empty()) {
    const std::size_t part = step.records.size() / 8 + 1;
    for (std::size_t i = 0; i < part; ++i) {
      skip(step.records.front());
      release(step.records.front());
      step.records.pop_front();
    }
    step.cut += part;
    forget_unused(true);
  }
}

std::string Ring::finish() {
  const Lock lock(mutex_);
  finished_ = true;
  report_.steps_left_out += steps_.size();
  steps_.clear();
  contents_.clear();
  attributes_.clear();
  older_attributes_.clear();
  return fmt::format(
      "ring: written {}, {} of {}; the others were left out; it held at most {}, {}{}",
      count_text(report_.writes, "time"), report_.steps_written,
      count_text(report_.steps_written + report_.steps_left_out, "step"), count_text(report_.most_steps, "step"),
      megabytes(report_.most_bytes),
      report_.cut_steps > 0 ? fmt::format("; ring_bytes was full in {}", count_text(report_.cut_steps, "step")) : "");
}

RingReport Ring::report() const {
  const Lock lock(mutex_);
  return report_;
}

void Ring::step_begins() {
  const Lock lock(mutex_);
  ++begun_;
}

void Ring::expect(std::uint64_t content) {
  const Lock lock(mutex_);
  Bytes& bytes = contents_[content];
  bytes.used = begun_;
  if (bytes.state == Bytes::State::lost) bytes.state = Bytes::State::expected;
}

bool Ring::holds(std::uint64_t content) {
  const Lock lock(mutex_);
  const auto found = contents_.find(content);
  if (found == contents_.end()) return false;
  const Bytes::State state = found->second.state;
  if (state == Bytes::State::lost || (state == Bytes::State::written && passing_.empty())) return false;
  found->second.used = begun_;
  return true;
}

Ring::Step* Ring::find(StepId id) {
  for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) {
    if (step->id == id) return &*step;
  }
  return nullptr;
}

bool Ring::is_passing(StepId id) const { return std::ranges::find(passing_, id) != passing_.end(); }

}  // namespace sonde
