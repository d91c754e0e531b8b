// Anchors first: ops with the same name and surroundings, in the same order. Between anchors the two
// sequences are aligned by the similarity of ops. The remaining ops are matched along the edges of matched ones, and
// last by name alone, in any order. Then ops of the optimizer are matched by their parameters, and ops that read the
// output of another one than their counterpart are exchanged.
#include "ask/compare/match_ops.h"

#include <algorithm>
#include <functional>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ask/compare/common_names.h"
#include "ask/compare/flow_mender.h"
#include "ask/compare/op_features.h"
#include "ask/compare/sequence_alignment.h"
#include "ground/tensor/mix.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

constexpr float kSameFamily = 4, kSameShape = 3, kSameName = 3.5F, kSameParameters = 3, kSameScope = 2,
                kSameLeaf = 1.5F;
constexpr float kFamilyAlone = 1.5F;  // of ops that give other shapes
constexpr float kSameLine = 1, kAlikeShape = 1, kSameNeighbour = 1;
constexpr float kEnough = 5;  // an equal family alone is not enough, nor is an equal shape

class Matcher {
 public:
  Matcher(const CompareSide& target, const CompareSide& golden)
      : target_(target),
        golden_(golden),
        left_(features_of(target)),
        right_(features_of(golden)),
        matches_(target.ops.size()),
        taken_(golden.ops.size(), kNoOp),
        left_updated_(updated_parameters(target)),
        right_updated_(updated_parameters(golden)) {
    collect_parameters();
  }

  void by_mapping(const NameMap& names);
  void by_layers(const LayerNames& names);
  void by_order();
  void by_flow();
  void by_name();
  // The target's parameters have got other names.
  void rename();
  // Loops of an optimizer over the parameters, in any order.
  void by_parameter();
  void mend();
  const std::vector<OpMatch>& matches() const { return matches_; }

 private:
  using Key = std::function<std::uint64_t(const OpFeatures&, const CompareOp&)>;
  struct Range {
    std::uint32_t begin, end;
  };

  void match(std::uint32_t target, std::uint32_t golden, MatchedBy how) {
    matches_[target] = {golden, how};
    taken_[golden] = target;
  }
  bool is_free(std::uint32_t target, std::uint32_t golden) const {
    return matches_[target].golden == kNoOp && taken_[golden] == kNoOp;
  }
  void part(std::uint32_t target) {
    if (matches_[target].golden != kNoOp) taken_[matches_[target].golden] = kNoOp;
    matches_[target] = {};
  }
  void collect_parameters() {
    const auto collect = [](const std::vector<OpFeatures>& from, const std::vector<std::uint64_t>& updated,
                            Numbers& all, Numbers& all_updated) {
      all.clear();
      for (const OpFeatures& features : from) all.insert(features.parameter);
      all_updated = Numbers(updated.begin(), updated.end());
    };
    collect(left_, left_updated_, left_parameters_, left_keys_);
    collect(right_, right_updated_, right_parameters_, right_keys_);
  }
  // False: both are ops of an optimizer, which update two parameters that both sides know.
  bool may_update_one(std::uint32_t target, std::uint32_t golden) const {
    const std::uint64_t a = left_updated_[target], b = right_updated_[golden];
    return a == b || a == 0 || b == 0 || (!right_keys_.contains(a) && !left_keys_.contains(b));
  }
  // An op known only from a file name may be of any type.
  bool has_type(std::uint32_t target, std::uint32_t golden) const {
    return !target_.ops[target].op->op_type.empty() && !golden_.ops[golden].op->op_type.empty();
  }
  bool same_family(std::uint32_t target, std::uint32_t golden) const {
    if (!may_update_one(target, golden)) return false;
    if (left_[target].of_lists != right_[golden].of_lists) return false;
    return !has_type(target, golden) || OpFamilies::same(*target_.ops[target].family, *golden_.ops[golden].family);
  }
  float likeness(std::uint32_t target, std::uint32_t golden) const;
  // Pairs of ops whose key is the same and occurs once on each side, in one order.
  IndexPairs anchors(Range target, Range golden, const Key& key) const;
  void align(Range target, Range golden);
  void align(const std::vector<std::uint32_t>& rows, const std::vector<std::uint32_t>& columns);
  void align_between(Range target, Range golden, int level);
  bool match_readers(std::uint32_t target);
  bool match_producers(std::uint32_t target);
  static std::map<std::pair<std::uint64_t, std::string_view>, int> times_of(const CompareSide& side,
                                                                            const std::vector<OpFeatures>& features);
  void note_order_alone(const FlowMender& mender);

  const CompareSide& target_;
  const CompareSide& golden_;
  std::vector<OpFeatures> left_, right_;
  using Numbers = std::unordered_set<std::uint64_t>;
  Numbers left_parameters_, right_parameters_;
  std::vector<OpMatch> matches_;
  std::vector<std::uint32_t> taken_;  // by golden ops: the target's
  // By ops of the optimizer: the parameter that they concern.
  std::vector<std::uint64_t> left_updated_, right_updated_;
  Numbers left_keys_, right_keys_;
};

float Matcher::likeness(std::uint32_t target, std::uint32_t golden) const {
  const OpFeatures& a = left_[target];
  const OpFeatures& b = right_[golden];
  if (a.phase != b.phase && target_.rank->has_journal && golden_.rank->has_journal) return 0;
  if (a.of_lists != b.of_lists || !may_update_one(target, golden)) return 0;
  const bool family = same_family(target, golden);
  // Another op in one's place computes something at least.
  if (!family && a.name != b.name &&
      (moves_or_casts(target_.ops[target].kind) || moves_or_casts(golden_.ops[golden].kind)))
    return 0;
  const bool same_place = a.name == b.name || (a.leaf != 0 && a.leaf == b.leaf);
  const bool other_shape = a.shape != 0 && b.shape != 0 && a.shape_set != b.shape_set;
  if (other_shape && !same_place) return 0;
  // Parameters are updated in any order: each by its name, if both sides use the same name.
  const bool updates = a.phase == Phase::optimizer && a.parameter != 0 && b.parameter != 0;
  const bool named = right_parameters_.contains(a.parameter) || left_parameters_.contains(b.parameter);
  if (updates && (named || !family) && a.parameter != b.parameter) return 0;
  float sum = !family ? 0 : other_shape || !has_type(target, golden) ? kFamilyAlone : kSameFamily;
  if (a.shape != 0 && a.shape == b.shape) {
    sum += kSameShape;
  } else if (a.shape_set != 0 && a.shape_set == b.shape_set) {
    sum += kAlikeShape;
  }
  if (a.name == b.name) sum += kSameName;
  if (a.scope != 0 && a.scope == b.scope) {
    sum += kSameScope;
  } else if (a.leaf != 0 && a.leaf == b.leaf) {
    sum += kSameLeaf;
  }
  if (a.parameters != 0 && a.parameters == b.parameters) sum += kSameParameters;
  if (a.line != 0 && a.line == b.line) sum += kSameLine;
  if (a.before == b.before) sum += kSameNeighbour;
  if (a.after == b.after) sum += kSameNeighbour;
  return sum >= kEnough ? sum : 0;
}

void Matcher::by_mapping(const NameMap& names) {
  if (names.ops.empty()) return;
  std::unordered_map<std::string_view, std::uint32_t> full, last;
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    const std::string_view name = golden_.ops[g].op->op_name;
    full.try_emplace(name, g);
    last.try_emplace(name.substr(name.rfind('/') + 1), g);
  }
  for (std::uint32_t t = 0; t < target_.ops.size(); ++t) {
    const std::string_view name = target_.ops[t].op->op_name;
    auto named = names.ops.find(name);
    if (named == names.ops.end()) named = names.ops.find(name.substr(name.rfind('/') + 1));
    if (named == names.ops.end()) continue;
    auto found = full.find(named->second);
    if (found == full.end()) {
      found = last.find(named->second);
      if (found == last.end()) continue;
    }
    if (is_free(t, found->second)) match(t, found->second, MatchedBy::mapping);
  }
}

// Ops of a layer that has another golden name belong to those of that layer, in their order.
void Matcher::by_layers(const LayerNames& names) {
  if (names.empty()) return;
  const std::vector<std::string> renamed = golden_layers_of(target_, names);
  std::map<std::pair<std::string, Phase>, std::vector<std::uint32_t>> mine, theirs;
  for (std::uint32_t t = 0; t < target_.ops.size(); ++t) {
    const bool is_renamed = renamed[t] != layer_of(target_.ops[t]);
    if (is_renamed && matches_[t].golden == kNoOp) mine[{renamed[t], left_[t].phase}].push_back(t);
  }
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    if (taken_[g] == kNoOp) theirs[{layer_of(golden_.ops[g]), right_[g].phase}].push_back(g);
  }
  for (const auto& [layer, ops] : mine) {
    const auto found = theirs.find(layer);
    if (found == theirs.end()) continue;
    align(ops, found->second);
    for (const std::uint32_t t : ops) {
      if (matches_[t].golden != kNoOp) matches_[t].how = MatchedBy::mapping;
    }
  }
}

IndexPairs Matcher::anchors(Range target, Range golden, const Key& key) const {
  struct Seen {
    std::uint32_t target = kNoOp, golden = kNoOp;
    bool twice = false;
  };
  std::unordered_map<std::uint64_t, Seen> seen;
  for (std::uint32_t t = target.begin; t < target.end; ++t) {
    if (matches_[t].golden != kNoOp) continue;
    Seen& one = seen[key(left_[t], target_.ops[t])];
    one.twice = one.twice || one.target != kNoOp;
    one.target = t;
  }
  for (std::uint32_t g = golden.begin; g < golden.end; ++g) {
    if (taken_[g] != kNoOp) continue;
    const auto at = seen.find(key(right_[g], golden_.ops[g]));
    if (at == seen.end()) continue;
    at->second.twice = at->second.twice || at->second.golden != kNoOp;
    at->second.golden = g;
  }
  IndexPairs pairs;
  for (std::uint32_t t = target.begin; t < target.end; ++t) {
    const auto at = seen.find(key(left_[t], target_.ops[t]));
    if (at == seen.end() || at->second.twice || at->second.golden == kNoOp || at->second.target != t) continue;
    if (same_family(t, at->second.golden)) pairs.emplace_back(t, at->second.golden);
  }
  return longest_rising(pairs);
}

// The alignment with the greatest sum of similarities.
void Matcher::align(Range target, Range golden) {
  std::vector<std::uint32_t> rows, columns;
  for (std::uint32_t t = target.begin; t < target.end; ++t) {
    if (matches_[t].golden == kNoOp) rows.push_back(t);
  }
  for (std::uint32_t g = golden.begin; g < golden.end; ++g) {
    if (taken_[g] == kNoOp) columns.push_back(g);
  }
  align(rows, columns);
}

void Matcher::align(const std::vector<std::uint32_t>& rows, const std::vector<std::uint32_t>& columns) {
  // Two programs of their own have too many; by_flow and by_name do what they can.
  for (const auto& [t, g] : best_alignment(rows, columns, [&](auto t, auto g) { return likeness(t, g); }))
    match(t, g, left_[t].name == right_[g].name ? MatchedBy::name : MatchedBy::order);
}

void Matcher::align_between(Range target, Range golden, int level) {
  // The first key is the full description of an op; the second leaves out its surroundings, the third its name.
  const Key keys[] = {
      [](const OpFeatures& f, const CompareOp&) {
        std::uint64_t key = f.name;
        for (const std::uint64_t part : {f.shape, f.parameters, f.data, f.before, f.after}) mix(key, part);
        return key;
      },
      [](const OpFeatures& f, const CompareOp& op) {
        std::uint64_t key = f.parameters;
        for (const std::uint64_t part : {f.shape, f.scope, f.before, f.after, std::uint64_t{op.family->front()}}) {
          mix(key, part);
        }
        return f.parameters == 0 ? f.name * 31 + f.shape : key;
      },
  };
  if (target.begin == target.end || golden.begin == golden.end) return;
  if (level == 2) return align(target, golden);
  Range rest = target, other = golden;
  for (const auto& [t, g] : anchors(target, golden, keys[level])) {
    align_between({rest.begin, t}, {other.begin, g}, level + 1);
    match(t, g, left_[t].name == right_[g].name ? MatchedBy::name : MatchedBy::flow);
    rest.begin = t + 1;
    other.begin = g + 1;
  }
  align_between(rest, other, level + 1);
}

void Matcher::by_order() {
  align_between({0, static_cast<std::uint32_t>(target_.ops.size())},
                {0, static_cast<std::uint32_t>(golden_.ops.size())}, 0);
}

// For a matched op: pairs its readers on both sides that do the same work and have no counterpart yet.
bool Matcher::match_readers(std::uint32_t target) {
  bool any = false;
  const CompareOp& a = target_.ops[target];
  const CompareOp& b = golden_.ops[matches_[target].golden];
  const auto slots_of = [](const CompareOp& reader, std::uint32_t from) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> slots;
    for (const CompareInput& input : reader.inputs) {
      if (input.from == from) slots.emplace_back(input.tensor->slot, input.from_slot);
    }
    return slots;
  };
  // First those that read the same output in the same place.
  for (const bool same_slots : {true, false}) {
    for (const std::uint32_t t : a.readers) {
      if (matches_[t].golden != kNoOp) continue;
      for (const std::uint32_t g : b.readers) {
        if (taken_[g] != kNoOp || !same_family(t, g)) continue;
        if (left_[t].shape_set != right_[g].shape_set) continue;
        if (same_slots && slots_of(target_.ops[t], target) != slots_of(golden_.ops[g], matches_[target].golden))
          continue;
        match(t, g, MatchedBy::flow);
        any = true;
        break;
      }
    }
  }
  return any;
}

bool Matcher::match_producers(std::uint32_t target) {
  bool any = false;
  const std::vector<CompareInput>& a = target_.ops[target].inputs;
  const std::vector<CompareInput>& b = golden_.ops[matches_[target].golden].inputs;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    const std::uint32_t t = a[i].from, g = b[i].from;
    if (t == kNoOp || g == kNoOp || !is_free(t, g)) continue;
    if (!same_family(t, g) || left_[t].shape_set != right_[g].shape_set) continue;
    match(t, g, MatchedBy::flow);
    any = true;
  }
  return any;
}

void Matcher::by_flow() {
  if (!target_.has_flow || !golden_.has_flow) return;
  std::vector<std::uint32_t> border;
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (matches_[t].golden != kNoOp) border.push_back(t);
  }
  for (int round = 0; round < 64; ++round) {
    bool any = false;
    for (std::uint32_t t = 0; t < matches_.size(); ++t) {
      if (matches_[t].golden == kNoOp) continue;
      any = match_readers(t) || any;
      any = match_producers(t) || any;
    }
    if (!any) return;
  }
}

void Matcher::by_name() {
  std::unordered_map<std::uint64_t, std::uint32_t> names;
  for (std::uint32_t g = 0; g < golden_.ops.size(); ++g) {
    if (taken_[g] == kNoOp) names.try_emplace(right_[g].name, g);
  }
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (matches_[t].golden != kNoOp) continue;
    const auto at = names.find(left_[t].name);
    if (at == names.end() || taken_[at->second] != kNoOp) continue;
    if (same_family(t, at->second)) match(t, at->second, MatchedBy::name);
  }
}

void Matcher::rename() {
  left_ = features_of(target_);
  left_updated_ = updated_parameters(target_);
  collect_parameters();
}

void Matcher::by_parameter() {
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    const std::uint32_t g = matches_[t].golden;
    if (g != kNoOp && matches_[t].how != MatchedBy::mapping && !may_update_one(t, g)) part(t);
  }
  std::map<std::uint64_t, std::pair<std::vector<std::uint32_t>, std::vector<std::uint32_t>>> loops;
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (left_updated_[t] != 0 && matches_[t].golden == kNoOp) loops[left_updated_[t]].first.push_back(t);
  }
  for (std::uint32_t g = 0; g < taken_.size(); ++g) {
    if (right_updated_[g] != 0 && taken_[g] == kNoOp) loops[right_updated_[g]].second.push_back(g);
  }
  for (const auto& [parameter, ops] : loops) align(ops.first, ops.second);
}

void Matcher::mend() {
  if (!target_.has_flow || !golden_.has_flow) return;
  FlowMender mender(target_, golden_, matches_, [&](std::uint32_t t, std::uint32_t g) {
    return same_family(t, g) && left_[t].phase == right_[g].phase && left_[t].shape_set == right_[g].shape_set &&
           left_[t].of_lists == right_[g].of_lists && matches_[t].how != MatchedBy::mapping;
  });
  mender.run();
  std::ranges::fill(taken_, kNoOp);
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    if (matches_[t].golden != kNoOp) taken_[matches_[t].golden] = t;
  }
  by_flow();
  by_name();
  note_order_alone(mender);
}

// How often an op of this type is in its scope.
std::map<std::pair<std::uint64_t, std::string_view>, int> Matcher::times_of(const CompareSide& side,
                                                                            const std::vector<OpFeatures>& features) {
  std::map<std::pair<std::uint64_t, std::string_view>, int> times;
  for (std::size_t i = 0; i < side.ops.size(); ++i) ++times[{features[i].scope, side.ops[i].op->op_type}];
  return times;
}

void Matcher::note_order_alone(const FlowMender& mender) {
  const auto left = times_of(target_, left_), right = times_of(golden_, right_);
  for (std::uint32_t t = 0; t < matches_.size(); ++t) {
    OpMatch& match = matches_[t];
    if (match.golden == kNoOp || match.how == MatchedBy::mapping || mender.is_shown_by_flow(t)) continue;
    const OpFeatures &a = left_[t], &b = right_[match.golden];
    const auto mine = left.find({a.scope, target_.ops[t].op->op_type});
    const auto theirs = right.find({b.scope, golden_.ops[match.golden].op->op_type});
    const bool is_only_one = a.scope == b.scope && mine->second == 1 && theirs->second == 1;
    match.by_order_alone = !is_only_one;
  }
}

}  // namespace

std::string_view word_of(MatchedBy how) {
  constexpr std::string_view kWords[] = {"", "mapping", "name", "order", "data flow", "recomputation", "values"};
  return kWords[static_cast<std::size_t>(how)];
}

std::vector<OpMatch> match_ops(CompareSide& target, CompareSide& golden, const NameMap& names,
                               const SameValues& same_values) {
  number_outside(target, golden, same_values);
  Matcher matcher(target, golden);
  matcher.by_mapping(names);
  matcher.by_layers(names.layers);
  matcher.by_order();
  matcher.by_flow();
  if (rename_parameters(target, golden, matcher.matches(), same_values)) matcher.rename();
  matcher.by_parameter();
  matcher.by_flow();
  matcher.by_name();
  matcher.mend();
  return matcher.matches();
}

}  // namespace sonde
