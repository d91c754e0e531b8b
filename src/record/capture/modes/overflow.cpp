#include "record/capture/modes/overflow.h"

#include "ground/stats/finite.h"

namespace sonde {

bool OverflowCheck::can_look(const HostTensor& output) {
  const TensorView& view = output.view;
  return output.skip == nullptr && !output.uninitialised && has_countable_bytes(view) &&
         can_be_non_finite(view.dtype) && view.elements() != 0;
}

OverflowCheck::OverflowCheck(const ReadRules& rules, const HostTensor& output, bool with_statistics)
    : output_(output), key_(key_of(output)), extent_(extent_bytes(output.view)) {
  if (with_statistics && info(output.view.dtype).has_statistics) reading_.emplace(rules, output, key_, record_);
}

bool OverflowCheck::look_up(ContentCache& cache) {
  if (cache.known_finite(key_.storage, key_.data, extent_)) return false;
  if (cache.find(key_).uninitialised) return false;  // a view of unwritten memory
  epoch_ = cache.epoch(key_.storage);
  looked_ = true;
  if (!reading_) return true;
  read_ = reading_->look_up(cache);
  if (!read_) finite_ = record_.has_statistics && record_.statistics.all_finite();
  return read_;
}

void OverflowCheck::look(Recorder& recorder) {
  if (!reading_) {
    finite_ = output_.access->all_finite(output_.view);
  } else if (reading_->read(recorder)) {
    finite_ = record_.has_statistics && record_.statistics.all_finite();
  } else {
    finite_ = read_ = false;
  }
}

void OverflowCheck::publish(ContentCache& cache) {
  if (read_) reading_->publish(cache);
  if (looked_ && finite_ && key_.dense) cache.set_finite(key_.storage, key_.data, extent_, epoch_);
}

}  // namespace sonde
