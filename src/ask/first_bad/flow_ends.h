// FlowEnds: the effects of the NaN and infinities of a FlowGraph: the worst end of each value.
#pragma once

#include <cstdint>
#include <vector>

#include "ask/first_bad/flow_graph.h"
#include "ask/first_bad/flow_kinds.h"
#include "ask/first_bad/flow_origins.h"
#include "ask/first_bad/flow_training.h"
#include "ask/first_bad/loss_places.h"

namespace sonde {

class FlowEnds {
 public:
  // `losses`: null if they are not known.
  FlowEnds(const FlowGraph& graph, const FlowOrigins& origins, const FlowTraining& training, const LossPlaces* losses);

  End of(std::uint32_t value, BadKind kind) const { return ends_[value].worst[at(kind)]; }
  // Along paths on which the kind stays the same.
  End pure(std::uint32_t value, BadKind kind) const { return ends_[value].pure[at(kind)]; }
  // Whether `kind`, read by the op with these flags, is in the output as `next`.
  bool passes(std::uint8_t flags, BadKind kind, const FlowOp& op, std::uint32_t output, BadKind next) const;
  // Of an infinity that passes: the op reads NaN, too, and its output holds that alone.
  bool is_hidden(BadKind kind, const FlowOp& op, std::uint32_t output, BadKind next) const;
  // The loss times the scale: too large on purpose.
  bool is_scaled_loss(const FlowValue& value) const;

 private:
  struct Ends {
    End worst[2] = {};
    End pure[2] = {};
  };
  // The effects of a value on its readers.
  struct Reading {
    End worst = End::absorbed;
    bool is_read = false;   // by an op that computes something from it
    bool is_asked = false;  // whether it is finite
  };

  End end_of(const FlowValue& value, End own, BadKind kind, bool pure) const;
  End end_of_outputs(const FlowOp& op, const FlowInput& input, std::uint8_t flags, BadKind kind, bool pure) const;
  End end_of_output(const FlowOp& op, std::uint32_t output, std::uint8_t flags, BadKind kind, bool pure,
                    bool& is_bad) const;
  void look_at_reader(const FlowValue& value, const FlowReader& reader, BadKind kind, bool pure,
                      Reading& reading) const;
  static bool is_sum(const FlowOp& op);
  bool is_only_summed(std::uint32_t value) const;
  bool steers(const FlowOp& op) const;
  bool is_self_compared(const FlowValue& value, const FlowOp& op, std::uint32_t index) const;
  End own_end(const FlowValue& value) const;
  bool is_dropped(const FlowValue& value) const;
  bool comes_from_backward(std::uint32_t value) const;
  bool is_updated_parameter(const FlowValue& value) const;
  End end_unread(const FlowValue& value, BadKind kind, bool is_asked) const;
  bool is_differentiated(const FlowOp& last) const;
  std::uint32_t returned_loss() const;
  bool is_loss(const FlowValue& value) const;
  bool is_loss_elsewhere(const FlowValue& value) const;
  bool is_state(const FlowValue& value) const;

  const FlowGraph& graph_;
  const FlowOrigins& origins_;
  const FlowTraining& training_;
  const LossPlaces* losses_;
  const std::uint32_t returned_loss_;  // a value; kOutside: it is not known
  std::vector<Ends> ends_;             // by value
};

}  // namespace sonde
