// Companions: parameters and input data, which are recorded under names of their own beside the first op of a step that
// reads them. Knows which memory has which name, and whether the plan wants that name.
#pragma once

#include <optional>
#include <string_view>

#include "plan/config/plan.h"
#include "plan/config/selector.h"
#include "record/capture/content_cache.h"
#include "record/capture/graph_step.h"
#include "record/capture/host_tensor.h"
#include "record/capture/named_tensors.h"
#include "record/capture/op.h"
#include "record/capture/op_names.h"
#include "record/capture/sites.h"

namespace sonde {

struct Companion {
  const OpName* name = nullptr;
  bool in_constants = false;
  std::uint32_t placement = 0;       // as in TensorEntry
  std::uint32_t writer = 0;          // as in sonde_tensor
  std::optional<WholeTensor> whole;  // for a named tensor; data is the part that the op reads
};

// Not synchronised: its owner calls it under the session's lock.
class Companions {
 public:
  // All must outlive it.
  Companions(const Plan& plan, const SiteTable& sites, Selector& selector, OpNames& names, GraphSteps& steps,
             const ContentCache& cache);
  void open(const Layout& layout) { has_constants_ = layout.has_constants(); }

  // `step`: a step's number among the recorded ones, whatever its graph.
  void name_tensor(std::string_view name, const HostTensor& tensor, std::uint64_t step);
  void forget_older_than(std::uint64_t step) { named_tensors_.forget_older_than(step); }
  void begin_step(std::uint32_t graph) { named_tensors_.begin_step(graph, has_constants_); }
  void freed(std::uint64_t storage) { named_tensors_.freed(storage); }
  void clear() { named_tensors_.clear(); }
  bool records_parameter(std::string_view name) { return emits_ && selector_.decide_parameter(name); }

  // How the tensor is part of a distributed one, as in TensorEntry.
  std::uint32_t placement_of(const HostTensor& tensor);
  // The rank that writes this tensor of an op, as in sonde_tensor; 0: this one, for itself.
  std::uint32_t writer_of(const Op& op, const HostTensor& tensor);
  // An op reads `tensor`: `record` gets its name. `out`: set if it is to be recorded now, as `out->name`.
  void find(const Op& op, const HostTensor& tensor, TensorRecord& record, Companion& out);
  // Memory that others write, too, in which something was never written.
  bool is_being_filled(const HostTensor& tensor) const;

 private:
  void find_parameter(const Op& op, const HostTensor& tensor, bool with_op, TensorRecord& record, Companion& out);
  void find_data(const Op& op, const HostTensor& tensor, bool with_op, TensorRecord& record, Companion& out);
  bool names_parameter(const Op& op, const OpName& name);
  bool is_of_optimizer(const Op& op) const;

  const SiteTable& sites_;
  Selector& selector_;
  OpNames& names_;
  GraphSteps& steps_;
  const ContentCache& cache_;
  const bool emits_;
  bool has_constants_ = false;
  bool any_is_placed_ = false;   // some named tensor is part of a distributed one
  bool any_is_written_ = false;  // some named tensor has a writer
  NamedTensors named_tensors_;
};

}  // namespace sonde
