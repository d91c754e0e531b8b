#include "ask/relations/weights_of_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "ask/relations/orders_of_weights.h"

namespace sonde {
namespace {

class WeightsOfLayers {
 public:
  WeightsOfLayers(WeightCulprits& all, std::uint32_t first)
      : all_(all), orders_(all.target, all.golden, all.judgement), first_(first) {}

  // Weights of several axes that golden operators of one type read: one has them in another order than the others.
  void find_other_turns() {
    std::map<std::string, std::vector<std::uint32_t>> groups;
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      const PoolTensor& own = target_.tensors[i];
      constexpr std::size_t kFewestAxes = 3;
      if (!own.is_weight() || own.step != 0 || own.shape.size() < kFewestAxes) continue;
      const Relation& found = relation(i);
      if (found.kind != RelationKind::permuted || found.weak || own.readers.empty()) continue;
      const std::vector<std::uint32_t>& readers = golden_.tensors[found.golden()].readers;
      if (readers.empty()) continue;
      groups[fmt::format("{} {}", golden_.catalog_op(readers.front()).op_type, own.shape.size())].push_back(i);
    }
    for (const auto& [type, weights] : groups) {
      for (const std::uint32_t weight : weights) {
        const auto is_other = [&](std::uint32_t other) {
          return WeightOrders::turn_of(relation(other)) != WeightOrders::turn_of(relation(weight));
        };
        const std::ptrdiff_t others = std::ranges::count_if(weights, is_other);
        const bool is_in_region = judgement_.target.has[reader_of(weight)] != 0;
        if (2 * others < static_cast<std::ptrdiff_t>(weights.size()) || !is_in_region) continue;
        add(weight, reader_of(weight),
            fmt::format("is golden {} with its axes in another order than those of the other weights that golden {} "
                        "operators read",
                        name_of(relation(weight)), type.substr(0, type.find(' '))));
        if (!all_.found.empty() && all_.found.back().weight == weight) all_.found.back().uncertain = true;
      }
    }
  }

  // A weight that has another form than its like in other layers, or holds one golden weight in another order.
  void find_outliers() {
    std::map<std::string, std::vector<std::uint32_t>> groups;
    for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
      const PoolTensor& own = target_.tensors[i];
      if (!judgement_.is_weight[i] || own.step != 0 || own.print.proves_nothing()) continue;
      // Data have numbers for names, and what is joined is known by all its parts.
      const bool is_joined = relation(i).kind == RelationKind::joined;
      const std::string name = own.is_weight() ? std::string(own.of.tensor->parameter)
                               : is_joined     ? std::string()
                                               : name_of(relation(i));
      // Parts of one golden weight that are kept apart, such as queries and keys, do not belong to other layers.
      const bool is_part = !own.is_weight() && relation(i).kind == RelationKind::cut;
      groups[orders_.key_of(name, i) + (is_part ? fmt::format(" from {}", relation(i).parts.front().start) : "")]
          .push_back(i);
      if (const std::string key = orders_.golden_key_of(name, i); !key.empty()) groups[key].push_back(i);
    }
    for (const auto& [pattern, weights] : groups) {
      std::map<std::string, std::size_t> forms;
      const bool by_last = WeightOrders::is_of_joined(pattern);
      for (const std::uint32_t weight : weights) ++forms[orders_.form_of(weight, by_last)];
      const auto usual = std::ranges::max_element(forms, {}, [](const auto& form) { return form.second; });
      const bool is_tie = std::ranges::count(forms, usual->second, [](const auto& form) { return form.second; }) > 1;
      if (weights.size() == 1) {
        if (orders_.is_reordered(weights[0])) add_reordered(weights[0]);
        if (orders_.exchanges_parts_of_axis(weights[0])) add_exchanged(weights[0]);
        continue;
      }
      if (forms.size() == 1 || orders_.are_roles(weights)) continue;
      if (is_tie) {
        const std::size_t before = all_.found.size();
        const auto is_other = [&](std::uint32_t weight) {
          return orders_.is_reordered(weight) || orders_.exchanges_parts_of_axis(weight);
        };
        const bool is_only = std::ranges::count_if(weights, is_other) == 1;
        const auto distance_of = [&](std::uint32_t weight) { return distance(weight); };
        const std::uint32_t other =
            is_only ? *std::ranges::find_if(weights, is_other) : *std::ranges::min_element(weights, {}, distance_of);
        if (is_of_its_own(other, weights)) continue;
        add_outlier(other);
        if (all_.found.size() > before) all_.found.back().uncertain = true;
        continue;
      }
      for (const std::uint32_t weight : weights) {
        if (orders_.form_of(weight, by_last) != usual->first && relation(weight)) add_outlier(weight);
      }
    }
  }

 private:
  // As it is golden, and no other one has its shape: numbers in names count what follows one upon the other, too, as in
  // `mlp.0` and `mlp.2`.
  bool is_of_its_own(std::uint32_t weight, const std::vector<std::uint32_t>& weights) const {
    if (relation(weight).kind != RelationKind::same) return false;
    return std::ranges::none_of(weights, [&](std::uint32_t other) {
      return other != weight && target_.tensors[other].shape == target_.tensors[weight].shape;
    });
  }

  // Others that are called otherwise may have the same order, such as all gates of a cell: then it is the program's own
  // where the same lines read one of them and what follows is golden, and else it may be.
  void add_reordered(std::uint32_t weight) {
    const std::string order = orders_.own_order_of(weight);
    bool is_shared = false;
    for (std::uint32_t other = 0; other < target_.tensors.size() && !order.empty(); ++other) {
      const PoolTensor& own = target_.tensors[other];
      if (other == weight || !judgement_.is_weight[other] || own.step != 0 || own.print.proves_nothing()) continue;
      if (orders_.own_order_of(other) != order) continue;
      if (is_read_right(other) && have_common_lines(weight, other)) return;
      is_shared = true;
    }
    const std::size_t before = all_.found.size();
    add_outlier(weight);
    if (is_shared && all_.found.size() > before) all_.found.back().uncertain = true;
  }

  bool is_read_right(std::uint32_t weight) const {
    const std::vector<std::uint32_t>& readers = target_.tensors[weight].readers;
    return !readers.empty() &&
           std::ranges::none_of(readers, [&](std::uint32_t reader) { return judgement_.target.has[reader] != 0; });
  }

  bool have_common_lines(std::uint32_t weight, std::uint32_t other) const {
    const auto line_at = [&](std::uint32_t reader) {
      const CatalogOp& op = target_.catalog_op(reader);
      return std::pair(op.source_file, op.line);
    };
    return std::ranges::any_of(target_.tensors[weight].readers, [&](std::uint32_t reader) {
      return target_.catalog_op(reader).line > 0 &&
             std::ranges::any_of(target_.tensors[other].readers,
                                 [&](std::uint32_t its) { return line_at(its) == line_at(reader); });
    });
  }

  std::uint32_t reader_of(std::uint32_t weight) const {
    const std::vector<std::uint32_t>& readers = target_.tensors[weight].readers;
    return readers.empty() ? 0 : readers.front();
  }

  void add_exchanged(std::uint32_t weight) {
    add(weight, reader_of(weight),
        fmt::format("is golden {} with its axes in another order: two that are one axis of it are exchanged",
                    name_of(relation(weight))));
    if (!all_.found.empty() && all_.found.back().weight == weight) all_.found.back().uncertain = true;
  }

  // From the weight's reader to the first operator that differs. One that is read after it cannot be the cause.
  std::uint32_t distance(std::uint32_t weight) const {
    const std::uint32_t reader = reader_of(weight);
    return reader <= first_ ? first_ - reader : 0x40000000 + reader - first_;
  }

  void add_outlier(std::uint32_t weight) {
    if (orders_.exchanges_parts_of_axis(weight)) return add_exchanged(weight);
    // Sums that only begin are found before it: the operator that is named decides.
    if (!relation(weight) || (reader_of(weight) > first_ && !orders_.is_reordered(weight))) return;
    add(weight, reader_of(weight),
        "is " + relation_text(relation(weight), golden_) + ": another order than in the other layers");
    if (orders_.is_reordered(weight) && !all_.found.empty() && all_.found.back().weight == weight) {
      all_.found.back().what = "is " + relation_text(relation(weight), golden_) + ": in another order";
    }
  }

  const Relation& relation(std::uint32_t weight) const { return judgement_.relations[weight]; }
  std::string name_of(const Relation& relation) const { return all_.name_of(relation); }
  void add(std::uint32_t weight, std::uint32_t op, std::string what) { all_.add(weight, op, std::move(what)); }

  WeightCulprits& all_;
  const Pool& target_ = all_.target;
  const Pool& golden_ = all_.golden;
  const RelationJudgement& judgement_ = all_.judgement;
  const WeightOrders orders_;
  const std::uint32_t first_;
};

}  // namespace

void find_weights_unlike_other_layers(WeightCulprits& all, std::uint32_t first) {
  WeightsOfLayers layers(all, first);
  layers.find_outliers();
  layers.find_other_turns();
}

}  // namespace sonde
