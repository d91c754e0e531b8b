#include "ask/relations/weights_by_name.h"

#include <fmt/format.h>

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "ask/relations/names_of_weights.h"
#include "ask/relations/partial_weights.h"

namespace sonde {

bool is_named_as(const Pool& target, std::uint32_t weight, const Pool& golden, std::uint32_t golden_weight) {
  const std::string own = letters_of(target.tensors[weight].of.tensor->parameter);
  return own.ends_with(letters_of(golden.tensors[golden_weight].of.tensor->parameter));
}

namespace {

class ByName {
 public:
  ByName(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : target_(target), golden_(golden), judgement_(judgement) {}

  std::vector<Culprit> find() {
    find_exchanged_names();
    find_left_as_they_began();
    find_turned();
    return std::move(found_);
  }

 private:
  // Zeros, ones or some rows of the golden weight of that name, which nothing of the target has.
  void find_left_as_they_began() {
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      const PoolTensor& own = target_.tensors[i];
      if (!own.is_weight() || own.step != 0 || relation(i) || own.print.count == 0 || own.readers.empty()) continue;
      for (std::uint32_t golden = 0; golden < golden_.tensors.size(); ++golden) {
        const PoolTensor& other = golden_.tensors[golden];
        const bool is_lost = other.is_weight() && !judgement_.met[golden] && other.print.count == own.print.count;
        if (!is_lost || other.print.is_constant() || !says(i, golden)) continue;
        std::optional<std::string> what = loaded_in_part(own, other, golden_.name_of(golden));
        if (own.print.is_constant()) {
          what = fmt::format("has {} in each element, golden {} has not: it was not carried over", own.print.min,
                             golden_.name_of(golden));
        }
        if (!what) continue;
        found_.push_back(culprit_of(i, golden, std::move(*what)));
        found_.back().was_lost = true;
      }
    }
  }

  // Two weights have each other's golden values, as their names say.
  void find_exchanged_names() {
    std::map<std::uint32_t, std::uint32_t> holder;  // by golden tensor
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      const Relation& found = relation(i);
      if (!target_.tensors[i].is_weight() || target_.tensors[i].step != 0 || found.weak) continue;
      if (found.is_whole()) holder[found.golden()] = i;
    }
    for (const auto& [golden, weight] : holder) {
      if (says(weight, golden)) continue;
      for (const auto& [other_golden, other] : holder) {
        if (other <= weight || !says(weight, other_golden) || !says(other, golden)) continue;
        found_.push_back(
            culprit_of(weight, golden,
                       fmt::format("is golden {}, and {} is golden {}: they are exchanged", golden_.name_of(golden),
                                   target_.tensors[other].of.tensor->parameter, golden_.name_of(other_golden))));
      }
    }
  }

  // The only square one that is transposed, and its name says that it is the golden one: nothing but its axes differ.
  void find_turned() {
    std::vector<std::uint32_t> turned;
    bool are_others_as_golden = false;
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      const PoolTensor& own = target_.tensors[i];
      const Relation& found = relation(i);
      if (!own.is_weight() || own.step != 0 || own.shape.size() != 2 || !found.is_whole() || found.weak) continue;
      if (found.kind == RelationKind::permuted) turned.push_back(i);
      are_others_as_golden = are_others_as_golden || found.kind == RelationKind::same;
    }
    if (turned.size() != 1 || !are_others_as_golden) return;
    const PoolTensor& own = target_.tensors[turned[0]];
    const std::uint32_t golden = relation(turned[0]).golden();
    if (own.shape != golden_.tensors[golden].shape || !says(turned[0], golden)) return;
    for (const std::uint32_t reader : own.readers) {
      if (!judgement_.target.has[reader]) continue;
      found_.push_back(culprit_of(turned[0], golden, fmt::format("is golden {} transposed", golden_.name_of(golden))));
      found_.back().op = reader;
      found_.back().uncertain = true;
      return;
    }
  }

  const Relation& relation(std::uint32_t weight) const { return judgement_.relations[weight]; }
  bool says(std::uint32_t weight, std::uint32_t golden) const { return is_named_as(target_, weight, golden_, golden); }

  Culprit culprit_of(std::uint32_t weight, std::uint32_t golden, std::string what) const {
    const std::vector<std::uint32_t>& readers = target_.tensors[weight].readers;
    return {.op = readers.empty() ? 0 : readers.front(), .weight = weight, .golden = golden, .what = std::move(what)};
  }

  const Pool& target_;
  const Pool& golden_;
  const RelationJudgement& judgement_;
  std::vector<Culprit> found_;
};

}  // namespace

std::vector<Culprit> weights_by_name(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  return ByName(target, golden, judgement).find();
}

}  // namespace sonde
