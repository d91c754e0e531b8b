// NamedOps: what a host that names its operators reports and asks (named_host.h).
#pragma once

#include <cstdint>

#include "record/capture/host_tensor.h"
#include "record/capture/named_host.h"
#include "record/capture/op.h"
#include "record/capture/run.h"

namespace sonde {

class NamedOps {
 public:
  explicit NamedOps(Run& run) : run_(run) {}  // which outlives it

  Result<NamedHostSettings> settings();
  bool wants_step(std::uint64_t step);
  bool wants(const NamedOp& named);
  std::uint32_t begin(const NamedOp& named, Op& op);  // SONDE_WANT_*
  void parameter(const NamedOp& named, const HostTensor& tensor);
  void end_step();

 private:
  bool is_open_for(const NamedOp& named) REQUIRES(session_lock);
  // The step that the host says is open; its first op announces it.
  void enter_step(const NamedOp& named) REQUIRES(session_lock);

  Run& run_;
};

}  // namespace sonde
