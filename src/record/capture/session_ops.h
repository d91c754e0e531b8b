// SessionOps: what a host reports of its operators while they run, and what it asks about them beforehand.
//
//   begin(op, site, …)                     the bits of what to report: SONDE_WANT_*
//   input(op, slot, tensor) … output(…)    in any order of slots
//   end(op, failed)
//
// An op belongs to the recorder that began it, which may be one of an earlier beginning of the session.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "record/capture/host_tensor.h"
#include "record/capture/op.h"
#include "record/capture/run.h"
#include "sonde/sonde.h"

namespace sonde {

class SessionOps {
 public:
  explicit SessionOps(Run& run) : run_(run) {}  // which outlives it

  std::uint32_t begin(Op& op, std::uint32_t site, sonde_graph graph, std::uint64_t attributes);
  void attributes(Op& op, std::vector<Attribute> values) { op.recorder->set_attributes(op, std::move(values)); }
  void input_before(Op& op, std::uint32_t slot, const HostTensor& t) { op.recorder->input_before(op, slot, t); }
  void input(Op& op, std::uint32_t slot, const HostTensor& tensor) { op.recorder->input(op, slot, tensor); }
  void mutated(Op& op, std::uint64_t storage) { op.recorder->tensors().wrote(storage, op.record.sequence); }
  void wrote(Op& op, const HostTensor& part) { op.recorder->tensors().wrote(part, op.record.sequence); }
  void check_output(Op& op, const HostTensor& output);
  void output(Op& op, std::uint32_t slot, const HostTensor& tensor);
  bool watched(Op& op, std::uint32_t id, std::uint32_t slot, const HostTensor& tensor) {
    return op.recorder->watched(op, id, slot, tensor);
  }
  void failed(Op& op);
  void end(Op& op, bool failed) { op.recorder->end(op, failed); }
  std::unique_ptr<Op> defer(Op& op) { return op.recorder->defer(op); }

  // --- devices ---
  void device_read_done();

  // --- compiled graphs ---
  bool records_graph(sonde_graph graph);
  std::uint32_t site_wants(std::uint32_t site, std::uint32_t count);  // SONDE_WANT_*
  bool is_replaced(std::uint32_t site, std::string_view by);
  std::uint64_t keep(const Op& op) { return op.recorder->tensors().keep(op); }
  void input_of(Op& op, std::uint32_t slot, std::uint64_t maker, std::uint32_t output) {
    op.recorder->tensors().input_of(op, slot, maker, output);
  }
  void result_at(std::uint64_t maker, std::uint32_t output, const HostTensor& tensor);
  void forget(std::span<const std::uint64_t> sequences);

 private:
  bool is_current(const Op& op) REQUIRES(session_lock) { return op.recorder == &run_.ops(); }

  Run& run_;
};

}  // namespace sonde
