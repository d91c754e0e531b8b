#include "record/capture/modes/step_buffer.h"

namespace sonde {
namespace {

// Records of one step that wait for something to be found in it.
constexpr std::size_t kMostHeld = 1 << 16;

}  // namespace

void StepBuffer::submit(Record&& record) {
  Step& step = open_[record.step.graph];
  if (!buffers_ || step.kept) return recorder_->push(std::move(record));
  if (step.records.size() >= kMostHeld) {
    // Drops the first half of a very long step, but keeps the record of its beginning.
    const auto half = step.records.begin() + kMostHeld / 2;
    for (auto it = step.records.begin() + 1; it != half; ++it) drop(it->sequence);
    step.records.erase(step.records.begin() + 1, half);
  }
  step.records.push_back(std::move(record));
}

void StepBuffer::define(std::uint32_t graph, Attributes&& attributes) {
  if (!buffers_ || open_[graph].kept) {
    recorder_->define(attributes);
  } else {
    attributes_.push_back(std::move(attributes));
  }
}

void StepBuffer::keep(std::uint32_t graph) {
  Step& step = open_[graph];
  if (std::exchange(step.kept, true)) return;
  skip_dropped();
  for (const Attributes& attributes : attributes_) recorder_->define(attributes);
  attributes_.clear();
  for (Record& record : step.records) recorder_->push(std::move(record));
  step.records.clear();
}

void StepBuffer::end_step(std::uint32_t graph) {
  Step& step = open_[graph];
  for (const Record& record : step.records) {
    if (!record.completes) drop(record.sequence);
  }
  step.records.clear();
  step.kept = false;
}

void StepBuffer::drop(std::uint64_t sequence) {
  if (dropped_.empty() || dropped_.back().second != sequence) dropped_.emplace_back(sequence, sequence);
  ++dropped_.back().second;
}

void StepBuffer::skip_dropped() {
  for (const auto& [from, to] : dropped_) recorder_->skip(from, to);
  dropped_.clear();
}

}  // namespace sonde
