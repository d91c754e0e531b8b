// NamedHost: a host that names its operators and counts the steps of its graphs itself (MindSpore).
//
// Such a host reports an operator after it ran, with all its tensors, and reuses memory at once: an address does not
// identify the op that wrote it, so every tensor is read when it is reported.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dump/graph/execution_order.h"
#include "dump/graph/host_graph.h"
#include "plan/config/plan.h"
#include "plan/config/selector.h"
#include "record/capture/host_steps.h"
#include "record/capture/op_recorder.h"
#include "record/capture/per_graph.h"
#include "record/capture/sites.h"

namespace sonde {

// An operator, parameter or tensor under the host's own name, in the host's own step.
struct NamedOp {
  StepId step;
  std::string_view op_name, op_type;

  bool is_parameter() const { return op_type == "Parameter"; }
};

// Settings for such a host's own dumper, which finds the operators and writes the graphs.
struct NamedHostSettings {
  std::uint64_t first_step = 0;
  bool inputs_after = false;   // read the inputs after the operator ran
  std::filesystem::path path;  // where graphs and execution orders belong
};

// Not synchronised: the session calls it under its lock.
class NamedHost {
 public:
  // Both must outlive it.
  NamedHost(const Plan& plan, SiteTable& sites);

  // Registers such a host. Fails if the plan asks for something that the host cannot provide.
  Result<NamedHostSettings> settings();
  bool exists() const { return !path_.empty(); }
  HostSteps& steps() { return steps_; }
  const HostSteps& steps() const { return steps_; }

  // set_dump() of the operators in `scope` and below; with a type: of those directly in the scope of that type.
  void flag_scope(std::string_view scope, std::string_view type, bool enabled);
  // True if any of its data will be recorded. `rank`: the rank of the host's files.
  bool wants(OpRecorder& ops, const NamedOp& op, std::uint32_t rank) REQUIRES(session_lock);
  // Returns SONDE_WANT_*.
  std::uint32_t begin(OpRecorder& ops, const NamedOp& named, std::uint32_t rank, Op& op) REQUIRES(session_lock);

  std::uint64_t ops_asked() const { return asked_; }  // for which wants() was called
  // " (train.py:12)", from the host's graph; empty if the graph has no line.
  std::string line_in_graph(const FoundOps& found, std::uint32_t rank) const;
  void shrink() { known_.clear(); }

 private:
  // An op that wants() was called for.
  struct Known {
    const OpName* name = nullptr;
    std::vector<std::string> other_names;  // possible names in the host's graph files, if they differ there
    std::uint32_t site = 0;
    Selector::Wanted wanted, wanted_if_flagged;
    const std::vector<Attribute>* attributes = nullptr;  // only if the plan saves them
    std::uint64_t attributes_hash = 0;
  };
  // The attributes that all ops of one scope and type share in the host's graph.
  using StemAttributes = std::unordered_map<std::string, std::vector<Attribute>>;
  Known& find(OpRecorder& ops, const NamedOp& op, std::uint32_t rank) REQUIRES(session_lock);
  std::vector<std::string> other_names_of(const NamedOp& op, std::uint32_t rank);
  void add_attributes(Known& known, const NamedOp& op, std::uint32_t rank);
  Result<HostGraph> graph_of_host(std::uint32_t rank, std::uint32_t graph) const;
  Selector::Wanted decide(OpRecorder& ops, const Known& op, std::uint32_t graph, bool flagged) const
      REQUIRES(session_lock);
  bool is_flagged(const Known& op) const;

  const Plan& plan_;
  SiteTable& sites_;
  HostSteps steps_;
  std::filesystem::path path_;                    // where the host writes its graphs; empty: there is no such host
  std::unordered_map<std::string, Known> known_;  // by full name
  PerGraph<std::optional<ExecutionOrderNames>> orders_;
  PerGraph<std::optional<StemAttributes>> attributes_;
  std::unordered_map<std::string, bool> flagged_scopes_;  // "{scope}", "{scope}|{type}" -> last value from set_dump
  std::uint64_t asked_ = 0;
};

}  // namespace sonde
