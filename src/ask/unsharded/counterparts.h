// Which calls of a sharded step a golden op may be: by module, line, parameter and number.
//
//   const Counterparts counterparts(ranks, golden, learned.modules);
//   for (const Counterpart& with : counterparts.of(golden_op)) ... counterparts.parts_of(with, {false, slot})
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ask/unsharded/joined_tensor.h"
#include "ask/unsharded/rank_step.h"
#include "ask/unsharded/sites.h"

namespace sonde {

// In a ring, each hop takes blocks from rank to rank: call `i` of rank `r` has block `r + step * i + start`, counted round.
struct RingOfBlocks {
  std::size_t step = 0, start = 0;
};

// Of all ranks of a stage, or of the micro-batches on each: the calls that are one call of the golden run.
struct Counterpart {
  std::size_t stage = 0;
  CallSite site;
  std::size_t first = 0, stride = 1, calls = 1;  // numbers of calls at the site
  // Only this rank of the stage has it: an expert, a part of the optimizer. At this place the others have something else.
  std::optional<std::size_t> alone = {};
  std::optional<RingOfBlocks> ring = {};
};

class Counterparts {
 public:
  // Of golden modules: stage and module.
  using Modules = std::map<std::string, std::pair<std::size_t, std::string>>;

  // `modules`: known from the steps before; learn() adds more.
  Counterparts(const std::vector<RankStep>& ranks, const GoldenStep& golden, Modules& modules);

  // The likeliest first.
  std::vector<Counterpart> of(std::uint32_t golden) const;
  // The rank's op with its counterparts on other ranks, and with those for other micro-batches if `of_all`.
  Counterpart of(std::size_t rank, std::uint32_t op, bool of_all) const;
  TensorParts parts_of(const Counterpart& of, const CallSlot& slot) const;

  // The op of the first rank that has it; null: none.
  struct Shown {
    std::size_t rank = 0;
    std::uint32_t op = kNoOp;
  };
  std::optional<Shown> shown(const Counterpart& of) const;

  std::size_t micro_batches() const { return micro_batches_; }
  // Among the ranks of its stage.
  std::size_t number_in_stage(std::size_t rank) const;
  // The counterpart is of this rank.
  bool is_of(const Counterpart& with, std::size_t rank) const;
  void learn(std::string_view module, const Counterpart& where);
  // It is known where the golden module is in the target, and the counterpart is in another one.
  bool is_elsewhere(std::string_view module, const Counterpart& where) const;

 private:
  std::size_t calls_at(std::size_t stage, const CallSite& site) const;
  std::size_t calls_per_golden_call() const;
  template <class KeyOf>
  std::size_t calls_per_golden_call(const KeyOf& key_of) const;
  bool has_shape_of(std::uint32_t golden, const Counterpart& with) const;
  void add_ring_at(std::uint32_t golden, const CallSite& site, std::size_t stage, std::vector<Counterpart>& out) const;
  void add_at(std::uint32_t golden, const CallSite& site, std::size_t stage, std::vector<Counterpart>& out) const;
  std::optional<std::pair<std::size_t, std::string>> learned(std::string_view module) const;
  bool has_module(std::size_t stage, std::string_view module) const;

  const std::vector<RankStep>& ranks_;
  const GoldenStep& golden_;
  Modules& modules_;
  std::size_t stages_ = 0;
  std::size_t micro_batches_ = 1;  // calls of the target for one of the golden run
};

}  // namespace sonde
