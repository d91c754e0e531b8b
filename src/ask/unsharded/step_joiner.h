// The tensors of golden calls beside what their counterparts have there: the parts joined, and how far they are apart.
//
//   const StepJoiner joiner(ranks, golden, counterparts, learned.largest);
//   if (joiner.join_input(golden_op, input, with).fits) ...
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "ask/unsharded/counterparts.h"
#include "ask/unsharded/joined_tensor.h"
#include "ask/unsharded/rank_step.h"
#include "ask/unsharded/sites.h"

namespace sonde {

class StepJoiner {
 public:
  // `largest`: relative difference of what was found in the steps before.
  StepJoiner(const std::vector<RankStep>& ranks, const GoldenStep& golden, const Counterparts& counterparts,
             double largest);

  const GoldenStep& golden() const { return golden_; }
  const Counterparts& counterparts() const { return counterparts_; }
  const std::set<std::string>& problems() const { return problems_; }  // of files that cannot be read
  // Of a golden tensor.
  double tolerance(const CatalogTensor& golden) const;
  // The golden tensor is of a half type, and both ran in it.
  bool is_half_of_both(const CatalogTensor& golden) const;
  // One of the two has results in a half type, whose tolerance may hide errors up to here.
  bool has_halves() const { return has_halves_; }

  std::vector<Joined> join_outputs(std::uint32_t golden, const Counterpart& with) const;
  // The input of a golden op beside what its counterpart reads there.
  Joined join_input(std::uint32_t golden, const CompareInput& input, const Counterpart& with) const;
  // As of an op of that kind: gradients of the backward pass may have factors.
  Joined join_input(std::uint32_t golden, const CompareInput& input, const Counterpart& with, SiteKind kind) const;
  // Another golden tensor beside what the counterpart reads at that input.
  Joined join_instead(std::uint32_t golden, const CompareInput& input, const Counterpart& with,
                      const CatalogTensor& other) const;
  // The input of a golden op beside what its counterpart reads there, with another tensor in place of that rank's part.
  Joined join_with_part(std::uint32_t golden, const CompareInput& input, const Counterpart& with, std::size_t rank,
                        const CatalogTensor& part) const;
  // The tensor of a golden op of that kind beside what the rank's op, and its counterparts on other ranks, read.
  Joined join_read(std::size_t rank, std::uint32_t op, const CompareInput& input, const TensorOf& golden,
                   SiteKind kind) const;
  // The input of the rank's counterpart where the golden op reads that one; null: it has none.
  const CompareInput* input_at(std::size_t rank, std::uint32_t golden, const CompareInput& input,
                               const Counterpart& with) const;

 private:
  struct InputBeside {
    CallSlot slot;
    Joined joined;
  };
  InputBeside beside(std::uint32_t golden, const CompareInput& input, const Counterpart& with) const;
  Joined join_read(std::size_t rank, const Counterpart& with, const CompareInput& input, const TensorOf& golden,
                   SiteKind kind) const;
  Joined joined(const TensorParts& parts, const TensorOf& golden, SiteKind kind) const;
  JoinLimits limits_of(const CatalogTensor& golden, SiteKind kind) const;
  void look_for_norms();
  void look_for_passes();

  const std::vector<RankStep>& ranks_;
  const GoldenStep& golden_;
  const Counterparts& counterparts_;
  const std::size_t losses_;  // of the golden step
  bool has_halves_ = false;
  bool is_other_type_ = false;                    // the two ran in different types
  double tolerance_ = 0;                          // relative, beside the spacing of the type
  double of_network_alone_ = 0;                   // the same, of results of the network's forward pass
  double of_backward_alone_ = 0;                  // the same, of results of the backward pass
  std::optional<double> most_in_optimizer_ = {};  // tolerance there: gradients have a factor in common
  std::set<const CatalogTensor*> norms_;          // golden ones: the ranks may have those of their parts
  std::set<const CatalogTensor*> of_network_;     // golden ones that modules read and give in the forward pass
  std::set<const CatalogTensor*> of_backward_;    // golden ones that the backward pass reads and gives
  mutable std::set<std::string> problems_;
};

}  // namespace sonde
