#include "ask/relations/gru_apart.h"

#include <algorithm>
#include <string_view>

#include "read/operators/op_nature.h"

namespace sonde {
namespace {

class WrittenGru {
 public:
  explicit WrittenGru(const Pool& pool) : pool_(pool) {}

  std::optional<NumberApart> apart(std::uint32_t op) const {
    if (pool_.is_type(op, "tanh")) return of_fresh(op);
    if (pool_.is_type(op, "mul")) return of_share(op);
    return pool_.is_type(op, "lerp") ? of_mixture(op) : std::nullopt;
  }

 private:
  const std::vector<std::uint32_t>& inputs(std::uint32_t op) const { return pool_.ops[op].inputs; }
  bool is_made_by(std::uint32_t tensor, std::string_view type) const {
    return pool_.tensors[tensor].op != kNoOp && pool_.is_type(pool_.tensors[tensor].op, type);
  }
  bool is_gate(std::uint32_t tensor) const { return is_made_by(tensor, "sigmoid"); }
  bool is_fresh(std::uint32_t tensor) const { return is_made_by(tensor, "tanh"); }

  std::optional<NumberApart> of_fresh(std::uint32_t op) const {
    if (inputs(op).size() != 1 || !is_made_by(inputs(op)[0], "add")) return std::nullopt;
    const std::uint32_t sum = pool_.tensors[inputs(op)[0]].op;
    const auto is_reset = [&](std::uint32_t term) { return is_made_by(term, "mul"); };
    const auto is_gate_part = [&](std::uint32_t term) {
      constexpr std::size_t kGates = 3;
      return pool_.tensors[term].op != kNoOp && pool_.ops[pool_.tensors[term].op].outputs.size() == kGates;
    };
    if (inputs(sum).size() != 2 || std::ranges::any_of(inputs(sum), is_reset)) return std::nullopt;
    if (!std::ranges::all_of(inputs(sum), is_gate_part)) return std::nullopt;
    return NumberApart{sum, "adds both parts of the fresh state, and the golden GRU multiplies one by the reset gate"};
  }

  std::optional<NumberApart> of_share(std::uint32_t op) const {
    const auto is = [&](bool (WrittenGru::*kind)(std::uint32_t) const) {
      return std::ranges::any_of(inputs(op), [&](std::uint32_t input) { return (this->*kind)(input); });
    };
    if (inputs(op).size() != 2 || !is(&WrittenGru::is_gate) || !is(&WrittenGru::is_fresh)) return std::nullopt;
    if (!is_added_to_another_share(op)) return std::nullopt;
    return NumberApart{op, "multiplies the fresh state by a gate, and the golden GRU by what the gate lacks of 1"};
  }

  // As the old state that is kept; a gate of anything else is not of a GRU.
  bool is_added_to_another_share(std::uint32_t op) const {
    if (pool_.ops[op].outputs.empty()) return false;
    const std::uint32_t share = pool_.ops[op].outputs[0];
    return std::ranges::any_of(pool_.tensors[share].readers, [&](std::uint32_t reader) {
      return pool_.is_type(reader, "add") && std::ranges::any_of(inputs(reader), [&](std::uint32_t term) {
               return term != share && is_made_by(term, "mul");
             });
    });
  }

  std::optional<NumberApart> of_mixture(std::uint32_t op) const {
    constexpr std::size_t kStart = 0, kEnd = 1, kWeight = 2;
    if (inputs(op).size() != 3 || !is_gate(inputs(op)[kWeight])) return std::nullopt;
    if (is_fresh(inputs(op)[kStart]) || !is_fresh(inputs(op)[kEnd])) return std::nullopt;
    return NumberApart{op, "gives the fresh state where the gate is 1, and the golden GRU the old one"};
  }

  const Pool& pool_;
};

}  // namespace

std::optional<NumberApart> gru_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  const auto is_gru = [&](std::uint32_t op) { return golden.is_type(op, "gru") || golden.is_type(op, "grucell"); };
  if (std::ranges::none_of(judgement.golden.ops, is_gru)) return std::nullopt;
  const WrittenGru written(target);
  for (const std::uint32_t op : judgement.target.ops) {
    if (!target.is_of_forward(op)) continue;
    if (std::optional<NumberApart> apart = written.apart(op)) return apart;
  }
  return std::nullopt;
}

}  // namespace sonde
