#include "ask/relations/weights_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "ask/compare/compare_words.h"
#include "ask/relations/biases_apart.h"
#include "ask/relations/data_apart.h"
#include "ask/relations/element_order.h"
#include "ask/relations/joined_weights_apart.h"
#include "ask/relations/layers_exchanged.h"
#include "ask/relations/norm_behind.h"
#include "ask/relations/order_by_product.h"
#include "ask/relations/order_of_parts.h"
#include "ask/relations/partial_weights.h"
#include "ask/relations/repeated_lines.h"
#include "ask/relations/standings.h"
#include "ask/relations/weight_culprits.h"
#include "ask/relations/weights_by_name.h"
#include "ask/relations/weights_of_layers.h"
#include "read/operators/op_family.h"

namespace sonde {

namespace {

class Weights {
 public:
  Weights(const Pool& target, const Pool& golden, const RelationJudgement& judgement)
      : all_(target, golden, judgement), biases_(all_) {}

  std::vector<Culprit> find() {
    for (Culprit& culprit : weights_by_name(target_, golden_, judgement_)) all_.add(std::move(culprit));
    const std::uint32_t first = all_.first_that_differs();
    biases_.find_before(first);
    find_those_read_in_the_region();
    find_weights_unlike_other_layers(all_, first);
    if (std::optional<Culprit> layers = exchanged_layers(target_, golden_, judgement_)) all_.add(std::move(*layers));
    if (std::optional<Culprit> turned = weight_in_wrong_order(target_, golden_, judgement_, roots_))
      all_.add(std::move(*turned));
    std::ranges::stable_sort(found_, {}, [](const Culprit& culprit) { return culprit.op; });
    return std::move(found_);
  }

 private:
  const Relation& relation(std::uint32_t weight) const { return judgement_.relations[weight]; }

  void add(std::uint32_t weight, std::uint32_t op, std::string what) { all_.add(weight, op, std::move(what)); }
  bool is_good(std::uint32_t tensor) const { return all_.is_good(tensor); }

  // An operator whose data correspond and whose weight does not, or belongs to another golden operator.
  void find_those_read_in_the_region() {
    for (const std::uint32_t op : judgement_.target.ops) {
      std::uint32_t data = kNoOp;
      bool all_data_good = true;
      for (const std::uint32_t input : target_.ops[op].inputs) {
        if (roots_[input] != kNoOp) continue;
        data = input;
        all_data_good = all_data_good && is_good(input);
      }
      if (data == kNoOp) continue;
      if (!all_data_good) {
        look_behind_moves(op);
        if (target_.has_values()) continue;
        look_at_sums(op, data);
        look_at_patches(op, unfolded_from(data));
        continue;
      }
      for (const std::uint32_t input : target_.ops[op].inputs) {
        const std::uint32_t weight = roots_[input];
        if (weight == kNoOp || target_.tensors[weight].print.count == 0) continue;
        look_at(op, data, weight);
      }
    }
  }

  // Of data that were cut or padded, which have no counterpart although nothing is wrong: a weight that has none, either.
  void look_behind_moves(std::uint32_t op) {
    const std::vector<std::uint32_t>& inputs = target_.ops[op].inputs;
    const auto may_be_right = [&](std::uint32_t input) { return roots_[input] != kNoOp || is_moved_from_good(input); };
    if (target_.op(op).kind != OpKind::contraction || !std::ranges::all_of(inputs, may_be_right)) return;
    for (const std::uint32_t input : inputs) {
      const std::uint32_t weight = roots_[input];
      if (weight == kNoOp || is_good(weight) || target_.tensors[weight].print.count == 0) continue;
      if (golden_lacks_one_like(weight)) add_not_carried_over(op, weight);
    }
  }

  bool is_moved_from_good(std::uint32_t tensor) const {
    constexpr int kMostMoves = 8;
    for (int i = 0; i < kMostMoves && !is_good(tensor); ++i) {
      const std::uint32_t maker = target_.tensors[tensor].op;
      if (maker == kNoOp || !moves_or_casts(target_.op(maker).kind) || target_.ops[maker].inputs.size() != 1)
        return false;
      tensor = target_.ops[maker].inputs[0];
    }
    return is_good(tensor) && static_cast<bool>(relation(tensor));
  }

  // By statistics: of data that have no counterpart in operators that compute more at once.
  void look_at_sums(std::uint32_t op, std::uint32_t data) {
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const std::uint32_t weight = roots_[input];
      if (weight == kNoOp || !is_good(weight) || relation(weight).weak) continue;
      if (biases_.add_of_other_sums(op, data, weight) || biases_.add_lost_sibling(op, weight)) continue;
      const auto theirs = weight_of_norm_behind(target_, golden_, judgement_, op, weight, roots_, golden_roots_);
      if (!theirs || says(weight, relation(weight).golden())) continue;
      add(weight, op,
          fmt::format("is golden {}, where the golden norm reads {}", golden_.name_of(relation(weight).golden()),
                      *theirs));
      if (!found_.empty() && found_.back().weight == weight) found_.back().was_lost = true;
    }
  }

  void look_at_patches(std::uint32_t op, std::uint32_t data) {
    if (!is_good(data) || roots_[data] != kNoOp) return;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const std::uint32_t weight = roots_[input];
      if (weight != kNoOp && is_good(weight) && !relation(weight).weak) add_in_another_order(op, data, weight);
    }
  }

  void look_at(std::uint32_t op, std::uint32_t data, std::uint32_t weight) {
    if (!is_good(weight)) return add_not_carried_over(op, weight);
    if (relation(weight).weak || relation(weight).kind == RelationKind::constant) return;
    if (!target_.has_values() && add_in_another_order(op, data, weight)) return;
    if (std::optional<Culprit> rows = rows_in_another_order(all_, op, data, weight)) return all_.add(std::move(*rows));
    if (std::optional<Culprit> joined = joined_in_another_order(all_, op, data, weight))
      return all_.add(std::move(*joined));
    if (std::optional<Culprit> left = left_in_golden_order(all_, op, data, weight)) return all_.add(std::move(*left));
    if (biases_.add_lost_sibling(op, weight) || biases_.add_of_another_part(op, data, weight) ||
        biases_.add_beside_another(op, weight))
      return;
    if (add_of_other_norm(op, data, weight) || add_of_written_norm(op, data, weight)) return;
    if (target_.op(op).kind != OpKind::contraction || is_bias_beside(op, weight)) return;
    // Golden operators that read the same data, with their weights.
    std::set<std::string_view> theirs;
    for (const RelationPart& part : relation(data).parts) {
      const PoolTensor& read = golden_.tensors[part.golden];
      for (const std::uint32_t reader : readers_of_same(part.golden, read)) {
        for (const std::uint32_t input : golden_.ops[reader].inputs) {
          const std::uint32_t root = golden_roots_[input];
          const bool is_bias =
              root != kNoOp && golden_.tensors[root].shape.size() < target_.tensors[weight].shape.size();
          if (root != kNoOp && !is_bias) theirs.insert(golden_.name_of(root));
        }
      }
    }
    const auto is_theirs = [&](const RelationPart& part) { return theirs.contains(golden_.name_of(part.golden)); };
    if (theirs.empty()) return;
    if (std::ranges::none_of(relation(weight).parts, is_theirs)) {
      // By its name it is right: the data are not.
      if (relation(weight).parts.size() == 1 && says(weight, relation(weight).golden())) return;
      add(weight, op,
          fmt::format("is golden {}, where the golden run reads {}", name_of(relation(weight)), *theirs.begin()));
    } else if (is_turned_unlike_others(op, weight)) {
      add(weight, op,
          fmt::format(
              "is golden {}{}", name_of(relation(weight)),
              relation(weight).kind == RelationKind::permuted ? " transposed" : ", not transposed as others are"));
    }
  }

  // The operator reads it with a matrix, which shows the golden operator that is meant.
  bool is_bias_beside(std::uint32_t op, std::uint32_t weight) const {
    const auto is_matrix = [&](std::uint32_t input) {
      return roots_[input] != kNoOp && target_.tensors[roots_[input]].shape.size() > 1;
    };
    return target_.tensors[weight].shape.size() == 1 && std::ranges::any_of(target_.ops[op].inputs, is_matrix);
  }

  // Places that one program keeps and the other computes, such as where each table begins, were not left behind.
  void add_not_carried_over(std::uint32_t op, std::uint32_t weight) {
    const auto has_fractions = [&](std::uint32_t output) { return target_.tensors[output].has_fractions(); };
    const bool is_place =
        !target_.tensors[weight].has_fractions() && std::ranges::none_of(target_.ops[op].outputs, has_fractions);
    if (is_place) return;
    // Zeros that are added, or ones that multiply, need no golden like.
    if (target_.tensors[weight].print.is_constant() && !golden_lacks_one_like(weight)) return;
    if (!golden_lacks_any_for(target_, weight, golden_, judgement_.met) || add_not_packed(op, weight)) return;
    const std::size_t before = found_.size();
    if (const auto whole = golden_by_rows(target_, weight, golden_, judgement_.met)) {
      add(weight, op, *whole);
      if (found_.size() > before) found_.back().uncertain = true;
      return;
    }
    const std::optional<std::string> part = partly_golden(target_, weight, golden_, judgement_.met);
    add(weight, op, part.value_or("corresponds to no golden parameter: it was not carried over"));
    if (found_.size() > before) found_.back().uncertain = !part && !golden_lacks_one_like(weight);
  }

  // A golden parameter of this size that nothing of the target holds: without one, nothing was there to carry over.
  bool golden_lacks_one_like(std::uint32_t weight) const {
    for (std::uint32_t i = 0; i < golden_.tensors.size(); ++i) {
      const PoolTensor& other = golden_.tensors[i];
      if (other.is_weight() && !judgement_.met[i] && other.print.count == target_.tensors[weight].print.count)
        return true;
    }
    return false;
  }

  // Beside a weight that corresponds to nothing the operator reads a golden one as it is, and other operators of its type
  // give golden results with weights that hold more, such as convolutions with their norms.
  bool add_not_packed(std::uint32_t op, std::uint32_t beside) {
    if (target_.op(op).kind != OpKind::contraction) return false;
    std::uint32_t plain = kNoOp;
    for (const std::uint32_t input : target_.ops[op].inputs) {
      const std::uint32_t root = roots_[input];
      if (root != kNoOp && root != beside && is_good(root) && relation(root).is_whole()) plain = root;
    }
    if (plain == kNoOp || target_.tensors[plain].shape.size() < 2) return false;
    int packed = 0;
    for (std::uint32_t other = 0; other < target_.ops.size(); ++other) {
      if (target_.catalog_op(other).op_type != target_.catalog_op(op).op_type || target_.ops[other].outputs.empty())
        continue;
      if (!is_surely_golden(judgement_, target_.ops[other].outputs[0])) continue;
      packed += std::ranges::any_of(target_.ops[other].inputs, [&](std::uint32_t input) {
        const std::uint32_t root = roots_[input];
        return root != kNoOp && target_.tensors[root].shape.size() > 1 && !relation(root);
      });
    }
    constexpr int kFewest = 2;
    if (packed < kFewest) return false;
    add(plain, op,
        fmt::format("is golden {} as it is, and the weights of other operators, which give golden results, hold more",
                    name_of(relation(plain))));
    return true;
  }

  // The data are those of a golden norm, or what is inside of it, and it reads another weight of this size.
  bool add_of_other_norm(std::uint32_t op, std::uint32_t data, std::uint32_t weight) {
    if (target_.op(op).kind == OpKind::contraction) return false;
    const std::uint32_t from = relation(data).golden();
    const PoolTensor& read = golden_.tensors[from];
    const bool is_norm = target_.op(op).kind == OpKind::normalization;
    std::vector<std::uint32_t> norms;
    if (read.computed != nullptr) norms = {read.op};
    if (read.computed == nullptr && is_norm) norms = readers_of_same(from, read);
    std::erase_if(norms, [&](std::uint32_t golden) { return golden_.op(golden).kind != OpKind::normalization; });
    std::string_view theirs;
    for (const std::uint32_t norm : norms) {
      if (reads_what_follows_from(golden_, norm, relation(weight).golden())) return false;
      for (const std::uint32_t input : golden_.ops[norm].inputs) {
        const std::uint32_t root = golden_roots_[input];
        if (root == kNoOp || golden_.tensors[root].print.count != target_.tensors[weight].print.count) continue;
        if (are_equal(root, relation(weight).golden())) return false;
        if (theirs.empty()) theirs = golden_.name_of(root);
      }
    }
    // By its name it is right: the program reads it where it should not.
    if (theirs.empty() || says(weight, relation(weight).golden())) return false;
    add(weight, op, fmt::format("is golden {}, where the golden norm reads {}", name_of(relation(weight)), theirs));
    return true;
  }

  // The same of a golden norm that is written out.
  bool add_of_written_norm(std::uint32_t op, std::uint32_t data, std::uint32_t weight) {
    if (target_.op(op).kind != OpKind::normalization) return false;
    const auto theirs = weight_of_written_norm(golden_, judgement_, data, weight, golden_roots_);
    // Data that are a weight have no name that says what they should be: where it is right for another operator, the
    // program reads it where it should not.
    const bool is_named = target_.tensors[weight].is_weight() && says(weight, relation(weight).golden());
    const auto gives_golden = [&](std::uint32_t reader) {
      return std::ranges::any_of(target_.ops[reader].outputs,
                                 [&](std::uint32_t output) { return is_surely_golden(judgement_, output); });
    };
    if (!theirs || is_named || std::ranges::any_of(target_.tensors[weight].readers, gives_golden)) return false;
    add(weight, op, fmt::format("is golden {}, where the golden norm reads {}", name_of(relation(weight)), *theirs));
    return true;
  }

  // Golden weights: one of which another layer has a copy, too.
  bool are_equal(std::uint32_t a, std::uint32_t b) const {
    return a == b || golden_.name_of(a) == golden_.name_of(b) ||
           rounded_numbers(golden_.tensors[a].print) == rounded_numbers(golden_.tensors[b].print);
  }

  // The name of the weight ends as that of the golden one.
  bool says(std::uint32_t weight, std::uint32_t golden) const { return is_named_as(target_, weight, golden_, golden); }

  static std::ptrdiff_t weights_of(const Pool& pool, const std::vector<std::uint32_t>& roots, std::uint32_t op) {
    return std::ranges::count_if(pool.ops[op].inputs, [&](std::uint32_t input) { return roots[input] != kNoOp; });
  }

  // To the product, where the golden operator does both; the sum corresponds to nothing, either.
  bool adds_bias(std::uint32_t product) const {
    if (target_.ops[product].outputs.empty()) return false;
    return std::ranges::any_of(target_.tensors[target_.ops[product].outputs[0]].readers, [&](std::uint32_t reader) {
      const PoolOp& own = target_.ops[reader];
      const auto is_bias = [&](std::uint32_t input) {
        return roots_[input] != kNoOp && is_good(roots_[input]) && relation(roots_[input]);
      };
      return target_.is_type(reader, "add") && !own.outputs.empty() && !is_good(own.outputs[0]) &&
             std::ranges::count_if(own.inputs, is_bias) == 1;
    });
  }

  // The tensor that was unfolded to it: statistics of patches are in no golden tensor.
  std::uint32_t unfolded_from(std::uint32_t data) const {
    while (true) {
      const std::uint32_t maker = target_.tensors[data].op;
      if (maker == kNoOp || is_good(data)) return data;
      const bool unfolds = target_.is_type(maker, "im2col") || target_.is_type(maker, "unfold");
      const bool views = moves_or_casts(target_.op(maker).kind) && !chooses(target_, maker);
      const bool pads = target_.is_type(maker, "pad") || target_.is_type(maker, "constantpadnd");
      if (!unfolds && !views && !pads) return data;
      data = target_.ops[maker].inputs[0];
    }
  }

  // Statistics do not show the order of elements: a golden product of the same data and weight has another result.
  bool add_in_another_order(std::uint32_t op, std::uint32_t data, std::uint32_t weight) {
    const auto is_whole = [&](std::uint32_t tensor) { return relation(tensor).kind == RelationKind::same; };
    // Windows that are multiplied and then added up are a convolution, too.
    const bool are_windows =
        target_.is_type(op, "mul") && std::ranges::find(target_.ops[op].inputs, data) == target_.ops[op].inputs.end();
    if (!are_windows && target_.op(op).kind != OpKind::contraction) return false;
    if (!is_whole(data) || !is_whole(weight)) return false;
    // A bias that is another one explains it.
    if (std::ranges::any_of(target_.ops[op].inputs,
                            [&](auto input) { return roots_[input] != kNoOp && !is_good(roots_[input]); }))
      return false;
    if (target_.tensors[weight].shape.size() < 2) return false;
    const std::uint32_t read = relation(data).golden();
    const bool with_bias = adds_bias(op);
    const std::ptrdiff_t weights = weights_of(target_, roots_, op) + (with_bias || are_windows ? 1 : 0);
    // Else what moved the data, which the golden operator reads in another form, may be wrong.
    const bool is_read = std::ranges::find(target_.ops[op].inputs, data) != target_.ops[op].inputs.end();
    const bool is_exact = are_windows || (is_read && !(with_bias && has_lost_axes(data)));
    for (const std::uint32_t reader : readers_of_equal(read)) {
      if (golden_.op(reader).kind != OpKind::contraction || !judgement_.golden.has[reader]) continue;
      if (weights_of(golden_, golden_roots_, reader) != weights || gives_another_size(op, reader, are_windows))
        continue;
      for (const std::uint32_t input : golden_.ops[reader].inputs) {
        if (golden_roots_[input] == kNoOp) continue;
        if (golden_.name_of(golden_roots_[input]) != golden_.name_of(relation(weight).golden())) continue;
        if (add_other_views(op, data, reader)) return true;
        if (!is_exact && !gives_golden_elsewhere(target_, golden_, judgement_, op)) continue;
        add(weight, op,
            fmt::format(
                "has the numbers of golden {}, and the product differs: its elements are in another order, as if "
                "transposed, or those of the data are",
                name_of(relation(weight))));
        return true;
      }
    }
    return false;
  }

  // No order of elements explains it: the call is another one, such as that of a convolution with another stride.
  bool gives_another_size(std::uint32_t op, std::uint32_t reader, bool are_windows) const {
    const auto size_of = [](const Pool& pool, std::uint32_t one) {
      return pool.ops[one].outputs.empty() ? 0 : pool.tensors[pool.ops[one].outputs.front()].print.count;
    };
    return !are_windows && target_.op(op).kind == golden_.op(reader).kind &&
           target_.catalog_op(op).op_type == golden_.catalog_op(reader).op_type &&
           size_of(target_, op) != size_of(golden_, reader);
  }

  // The data were moved before, in another way than those of the golden product: the weight is not to blame.
  bool add_other_views(std::uint32_t op, std::uint32_t data, std::uint32_t golden_op) {
    if (std::optional<Culprit> joined = joined_otherwise(target_, golden_, judgement_, data)) {
      found_.push_back(std::move(*joined));
      return true;
    }
    if (const std::uint32_t joiner = joiner_of(target_, data);
        joiner != kNoOp && joiner_of(golden_, relation(data).golden()) == kNoOp) {
      const CatalogOp& product = golden_.catalog_op(golden_op);
      found_.push_back({.op = joiner,
                        .golden = relation(data).golden(),
                        .uncertain = true,
                        .what = fmt::format("joins what has the numbers that golden {} {} reads, and the product "
                                            "differs: in another order, or the weight has another",
                                            product.op_type, place_text(product))});
      return true;
    }
    const std::optional<ElementOrder> own = element_order_of(target_, data);
    if (!own || golden_roots_.empty()) return false;
    for (const std::uint32_t input : golden_.ops[golden_op].inputs) {
      if (golden_roots_[input] != kNoOp || golden_.tensors[input].print.count != target_.tensors[data].print.count)
        continue;
      const std::optional<ElementOrder> other = element_order_of(golden_, input);
      if (!other || golden_.tensors[other->root].shape != target_.tensors[own->root].shape) continue;
      if (!is_whole_of(own->root, other->root) || own->elements == other->elements) continue;
      found_.push_back({.op = own->first == kNoOp ? op : own->first,
                        .golden = input,
                        .uncertain = true,
                        .what = "gives golden values in another order"});
      return true;
    }
    return false;
  }

  // Axes became one as they lay in memory: the golden run may have them in another order.
  bool has_lost_axes(std::uint32_t data) const {
    const std::uint32_t maker = target_.tensors[data].op;
    if (maker == kNoOp || !moves_or_casts(target_.op(maker).kind) || chooses(target_, maker)) return false;
    const std::uint32_t before = target_.ops[maker].inputs[0];
    const std::uint32_t from = target_.tensors[before].op;
    const bool was_moved = from != kNoOp && moves_or_casts(target_.op(from).kind);
    return !was_moved && target_.tensors[before].shape.size() > target_.tensors[data].shape.size();
  }

  bool is_whole_of(std::uint32_t tensor, std::uint32_t golden) const {
    if (relation(tensor).kind != RelationKind::same) return false;
    const TensorPrint &a = golden_.tensors[relation(tensor).golden()].print, &b = golden_.tensors[golden].print;
    return a.count == b.count && a.min == b.min && a.max == b.max;
  }

  // The weight is transposed, or is not, unlike those of the same two types of operators whose results are good.
  bool is_turned_unlike_others(std::uint32_t op, std::uint32_t weight) const {
    const auto types_of = [&](std::uint32_t of, std::uint32_t read) {
      std::string types(target_.catalog_op(of).op_type);
      for (const std::uint32_t reader : golden_.tensors[relation(read).golden()].readers) {
        if (golden_.op(reader).kind == OpKind::contraction)
          return types + " " + std::string(golden_.catalog_op(reader).op_type);
      }
      return types;
    };
    if (target_.tensors[weight].shape.size() < 2) return false;  // it has no axes to exchange
    const bool is_turned = relation(weight).kind == RelationKind::permuted;
    const std::string types = types_of(op, weight);
    int alike = 0, unlike = 0;
    for (std::uint32_t i = 0; i < target_.ops.size(); ++i) {
      if (judgement_.target.has[i] || target_.op(i).kind != OpKind::contraction || i == op) continue;
      for (const std::uint32_t input : target_.ops[i].inputs) {
        const std::uint32_t root = roots_[input];
        if (root == kNoOp || !relation(root) || target_.tensors[root].shape.size() < 2 || types_of(i, root) != types)
          continue;
        ((relation(root).kind == RelationKind::permuted) == is_turned ? alike : unlike) += 1;
      }
    }
    if (alike + unlike > 0) return unlike > alike;
    const std::string type(target_.catalog_op(op).op_type);
    return is_turned && types == type + " " + type;
  }

  std::string name_of(const Relation& relation) const { return all_.name_of(relation); }

  // Also of its views and copies: they have other makers and the same values.
  std::vector<std::uint32_t> readers_of_same(std::uint32_t tensor, const PoolTensor& read) const {
    std::vector<std::uint32_t> readers = read.readers;
    constexpr std::size_t kMost = 64;
    for (std::size_t i = 0; i < readers.size() && readers.size() < kMost; ++i) {
      if (!moves_or_casts(golden_.op(readers[i]).kind)) continue;
      for (const std::uint32_t output : golden_.ops[readers[i]].outputs) {
        readers.insert(readers.end(), golden_.tensors[output].readers.begin(), golden_.tensors[output].readers.end());
      }
    }
    const std::uint32_t maker = golden_.tensors[tensor].op;
    if (maker != kNoOp && moves_or_casts(golden_.op(maker).kind) && golden_.ops[maker].inputs.size() == 1) {
      const std::uint32_t before = golden_.ops[maker].inputs[0];
      const std::vector<std::uint32_t> more = readers_of_same(before, golden_.tensors[before]);
      readers.insert(readers.end(), more.begin(), more.end());
    }
    return readers;
  }

  // Of all golden tensors with these numbers: in statistics the last state of a cell is the last step.
  std::set<std::uint32_t> readers_of_equal(std::uint32_t tensor) const {
    const RoundedNumbers wanted = rounded_numbers(golden_.tensors[tensor].print);
    std::set<std::uint32_t> all;
    for (const PoolTensor& other : golden_.tensors) {
      if (other.print.count == 0 || rounded_numbers(other.print) != wanted) continue;
      all.insert(other.readers.begin(), other.readers.end());
    }
    return all;
  }

  WeightCulprits all_;
  BiasesApart biases_;
  const Pool& target_ = all_.target;
  const Pool& golden_ = all_.golden;
  const RelationJudgement& judgement_ = all_.judgement;
  const std::vector<std::uint32_t>&roots_ = all_.roots, &golden_roots_ = all_.golden_roots;
  std::vector<Culprit>& found_ = all_.found;
};

}  // namespace

std::vector<Culprit> weights_to_blame(const Pool& target, const Pool& golden, const RelationJudgement& judgement) {
  return Weights(target, golden, judgement).find();
}

}  // namespace sonde
