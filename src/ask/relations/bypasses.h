// Operators of one run between two that both runs have: the other run leaves them out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

class Bypasses {
 public:
  // Of a judgement whose regions are known.
  Bypasses(const Pool& target, const Pool& golden, const RelationJudgement& judgement);

  // The first operator that reads a golden tensor where the golden run reads what it first computes of it: of `group`, of
  // those that move what it reads, and of those `beside` that read nothing wrong.
  std::optional<Culprit> find(const std::vector<std::uint32_t>& group, const std::vector<std::uint32_t>& beside) const;

 private:
  using Ops = std::vector<std::uint32_t>;

  std::vector<std::uint32_t> with_movers(const Ops& ops) const;
  std::uint32_t maker_of_values(std::uint32_t golden) const;
  std::string what_of(std::uint32_t read, std::uint32_t left_out) const;
  std::optional<Culprit> left_out_behind(std::uint32_t op) const;
  // `like` is then the golden tensor from which the golden run goes on.
  std::optional<Culprit> left_out_before(std::uint32_t op, std::uint32_t tensor) const;
  bool reads_no_bad(std::uint32_t op) const;
  bool do_the_same(std::uint32_t op, std::uint32_t golden_op) const;
  bool take_parts_alike(std::uint32_t op, std::uint32_t golden_op) const;
  std::uint32_t last_form_of(std::uint32_t golden) const;
  std::uint32_t first_of_moves(std::uint32_t tensor, std::uint32_t reader, std::uint32_t golden) const;
  bool read_one_tensor(std::uint32_t op, std::uint32_t golden_op) const;
  bool is_golden(std::uint32_t tensor) const;
  const std::vector<std::uint32_t>& same_as(std::uint32_t golden) const;
  Ops golden_consumers(std::uint32_t golden) const;
  bool is_computed_otherwise(std::uint32_t tensor, std::uint32_t like, const Ops& direct) const;

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  std::map<RoundedNumbers, std::vector<std::uint32_t>> by_numbers_;  // golden tensors
};

}  // namespace sonde
