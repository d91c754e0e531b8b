// EarlierValues: the values of what an op overwrites, in modes that decide only after the op whether it is recorded.
//
//   add(op, slot, tensor);    before the op runs
//   settle(op, kept);         after it: `kept` records them
#pragma once

#include <cstdint>

#include "record/capture/op.h"
#include "record/capture/op_tensors.h"
#include "record/writer/recorder.h"

namespace sonde {

class EarlierValues {
 public:
  explicit EarlierValues(OpTensors& tensors);  // which must outlive it
  void open(Recorder& recorder) { recorder_ = &recorder; }

  void add(Op& op, std::uint32_t slot, const HostTensor& tensor) EXCLUDES(session_lock);
  void settle(Op& op, bool kept) EXCLUDES(session_lock);

 private:
  void add_image(Op& op, std::uint32_t slot, const HostTensor& tensor) EXCLUDES(session_lock);

  OpTensors& tensors_;
  const bool needs_image_;  // bytes and hashes need a copy; statistics are taken at once, which costs less
  Recorder* recorder_ = nullptr;
};

}  // namespace sonde
