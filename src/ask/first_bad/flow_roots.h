// FlowRoots: the origins of the NaN and infinities of a FlowGraph that are worth a report, each with its path.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/first_bad/flow_ends.h"
#include "ask/first_bad/flow_graph.h"
#include "ask/first_bad/flow_kinds.h"
#include "ask/first_bad/flow_origins.h"
#include "ask/first_bad/flow_training.h"

namespace sonde {

struct Root {
  RootKind kind = RootKind::created;
  BadKind bad = BadKind::nan;
  std::uint32_t op = 0;                   // index into ops(): its maker; external and overwritten: its first reader
  const CatalogTensor* tensor = nullptr;  // output of the op; external and overwritten: its input
  std::uint32_t value = 0;
  End end = End::absorbed;
  bool inputs_known = true;                // false: some inputs of the op were not recorded
  bool aside = false;                      // unread, beside a training that continues: a metric, a printed number
  bool lost = false;                       // through a quotient it makes zeros of tensors that were not zero
  bool harms = false;                      // an op makes NaN of it that is not healthy
  bool drowned = false;                    // its readers give NaN or infinities for another reason
  std::vector<std::uint32_t> absorbed_by;  // ops, the first few
  std::vector<std::uint32_t> path;         // ops from the root to the end, the root's first
};

class FlowRoots {
 public:
  FlowRoots(const FlowGraph& graph, const FlowTraining& training, const FlowOrigins& origins, const FlowEnds& ends);

  // Worst and earliest first. Those whose end is `absorbed` are in `healthy`.
  const std::vector<Root>& roots() const { return roots_; }
  const std::vector<Root>& healthy() const { return healthy_; }

  // Whether the bad result of the root reaches the op of the next step with this name, as its input `slot`.
  bool reaches_next(const Root& root, std::string_view op_name, std::uint32_t slot) const;
  // The root of what the op with this sequence wrote in this step, asides and healthy ones included; null: none.
  const Root* root_of(std::uint64_t sequence, std::uint32_t slot) const;

 private:
  enum class Follow : std::uint8_t { found, on, past };
  template <class Look>
  bool follow_bad(std::uint32_t from, const Look& look, bool also_unknown = false) const;
  void add(RootKind root, std::uint32_t value, BadKind kind, std::uint32_t op, const CatalogTensor* tensor);
  bool is_aside(const Root& root) const;
  bool feeds_model(const Root& root) const;
  bool reaches(std::uint32_t from, std::uint32_t to) const;
  std::uint32_t unwritten(const FlowOp& op) const;
  bool leads_unseen(std::uint32_t value, std::uint32_t op) const;
  void leave_out_unseen();
  void sort();
  bool is_seen(std::pair<std::uint32_t, BadKind> from) const;
  void trace(Root& root) const;

  const FlowGraph& graph_;
  const FlowTraining& training_;
  const FlowOrigins& origins_;
  const FlowEnds& ends_;
  std::vector<Root> roots_, healthy_;
};

}  // namespace sonde
