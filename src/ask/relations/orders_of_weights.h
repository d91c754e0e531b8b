// In which order a weight holds golden elements: as its like in other layers does, or in one that needs a reason.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ask/relations/blame.h"

namespace sonde {

class WeightOrders {
 public:
  WeightOrders(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement) {}

  // Weights of one kind have it in common: the name but for the layer; if that shows none, what they are joined of.
  std::string key_of(std::string_view name, std::uint32_t weight) const;
  // By the name of the golden weight that it is, where its own shows no layers: "conv_1" for "convs.1". Empty: neither does.
  std::string golden_key_of(std::string_view name, std::uint32_t weight) const;
  static bool is_of_joined(std::string_view key);

  // The form of its relation without the numbers of layers.
  // `by_last`: weights of modules with different names have one form.
  std::string form_of(std::uint32_t weight, bool by_last) const;

  // By axis of the target: the golden axis.
  static std::vector<std::size_t> turn_of(const Relation& found);

  // Two axes of the weight that the golden one has as a single one, such as heads and their width, are exchanged.
  bool exchanges_parts_of_axis(std::uint32_t weight) const;

  // In what order it holds the parts of a golden weight, the same for each that it holds: parts of its axis, as shares.
  // Empty: in no order of its own.
  std::string own_order_of(std::uint32_t weight) const;

  // A list of different things, such as the norms of one block, the same in each layer: a number in the name says which,
  // and others have it, too. Such a weight is not in another form than its like.
  bool are_roles(const std::vector<std::uint32_t>& weights) const;

  // It goes backwards, or jumps, within one golden weight, or holds several that are numbered in another order.
  bool is_reordered(std::uint32_t weight) const;

 private:
  const Relation& relation(std::uint32_t weight) const { return judgement_.relations[weight]; }
  std::string_view golden_name(const RelationPart& part) const;
  std::size_t rank_among(const Relation& relation, const RelationPart& part) const;
  bool has_other_numbers(const Relation& relation) const;
  bool is_packed(const Relation& relation) const;
  bool all_is_held(const RelationPart& part) const;

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
};

}  // namespace sonde
