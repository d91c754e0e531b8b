#include "read/catalog/host_matching.h"

#include <algorithm>
#include <functional>

#include "dump/graph/execution_order.h"

namespace sonde {
namespace {

constexpr std::size_t kMostPairs = 1 << 16;         // names of files times ops of the graph, compared by values
constexpr std::size_t kMostExchanged = 1 << 11;     // such pairs that are compared with each other
constexpr std::size_t kMostChecked = 64;            // ops whose sizes are compared with the graph's afterwards
constexpr std::size_t kMostRuns = 3;                // of an op that are compared
constexpr std::size_t kMostSiblings = 4;            // readers of a parameter that are compared
constexpr std::uint64_t kMostBytes = 256ULL << 20;  // of tensor files
constexpr std::size_t kNoStem = ~std::size_t{0};

// Evidence for an op of the graph, and against it. A size that differs outweighs all values; types decide only
// between pairs that are equal otherwise, since a kernel may have another one than the graph infers.
constexpr int kEvidence = 16;
constexpr int kOtherSize = -32 * kEvidence, kOtherType = -1, kSame = 2 * kEvidence, kMaybeSame = kEvidence,
              kDifferent = -2 * kEvidence;

const CatalogTensor* slot_of(const CatalogOp& op, bool is_input, std::uint32_t slot) {
  const auto found = std::ranges::find_if(
      op.tensors, [&](const CatalogTensor& tensor) { return tensor.is_input == is_input && tensor.slot == slot; });
  return found == op.tensors.end() ? nullptr : &*found;
}

// A device's own arrangement may be larger than the tensor.
bool is_padded(const CatalogOp& op) {
  return std::ranges::any_of(op.tensors, [](const CatalogTensor& tensor) {
    return tensor.file.find("C0.") != std::string_view::npos || tensor.file.find("FRACTAL") != std::string_view::npos;
  });
}

}  // namespace

HostMatching::HostMatching(const HostGraph& graph, const std::vector<std::string>& order, const CatalogRank& rank,
                           const std::vector<CatalogStep*>& steps)
    : graph_(graph), steps_(steps), evidence_(rank, kMostBytes), has_order_(!order.empty()) {
  collect(order);
  index_graph();
  settle_by_evidence();
}

std::unordered_map<std::string_view, std::uint32_t> HostMatching::found() const {
  std::unordered_map<std::string_view, std::uint32_t> found;
  for (const Name& name : names_) {
    if (name.op) found.emplace(name.name, *name.op);
  }
  return found;
}

HostMatching::Contradictions HostMatching::contradictions() {
  Contradictions found;
  const auto contradicts = [&](const Name& name, std::uint32_t op) {
    return !name.runs.empty() && score_of_types(at(name.runs.front()), op) <= kOtherSize / 2;
  };
  for (const Name& name : names_) {
    if (!name.op) {
      const std::vector<std::uint32_t>& ops = stems_[name.stem].ops;
      const auto may_be = [&](std::uint32_t op) { return score(name, op).fit > kOtherSize / 2; };
      found.unknown += !ops.empty() && ops.size() <= kMostChecked && std::ranges::none_of(ops, may_be);
    } else if (found.checked < kMostChecked && !name.runs.empty() && !is_padded(at(name.runs.front()))) {
      ++found.checked;
      found.differ += contradicts(name, *name.op);
    }
  }
  return found;
}

std::size_t HostMatching::stem_of(std::string_view stem) {
  const auto [found, fresh] = stem_by_text_.try_emplace(stem, stems_.size());
  if (fresh) stems_.emplace_back();
  return found->second;
}

void HostMatching::collect(const std::vector<std::string>& order) {
  std::unordered_map<std::string_view, std::uint32_t> by_name;
  stem_of_op_.assign(graph_.ops.size(), kNoStem);
  for (std::uint32_t op = 0; op < graph_.ops.size(); ++op) by_name.emplace(graph_.ops[op].op_name, op);
  const auto add_op = [&](std::uint32_t op) {
    std::string_view stem = graph_.ops[op].op_name;
    std::uint64_t number = 0;
    if (stem_of_op_[op] != kNoStem) return;
    split_number(graph_.ops[op].op_name, stem, number);
    stem_of_op_[op] = stem_of(stem);
    stems_[stem_of_op_[op]].ops.push_back(op);
  };
  for (const std::string& name : order) {
    if (const auto found = by_name.find(name); found != by_name.end()) add_op(found->second);
  }
  for (std::uint32_t op = 0; op < graph_.ops.size(); ++op) add_op(op);

  std::unordered_map<std::string_view, std::size_t> known;
  places_.resize(steps_.size());
  parameters_.resize(steps_.size());
  for (std::size_t step = 0; step < steps_.size(); ++step) {
    from_the_first_ = from_the_first_ || (step == 0 && steps_[step]->id.number == 0);
    for (std::size_t i = 0; i < steps_[step]->ops.size(); ++i) {
      const CatalogOp& op = steps_[step]->ops[i];
      if (op.is_parameter && !op.tensors.empty()) parameters_[step].emplace(op.op_name, &op.tensors[0]);
      if (op.is_parameter) continue;
      std::string_view stem = op.op_name;
      std::uint64_t number = 0;
      const auto [found, fresh] = known.try_emplace(op.op_name, names_.size());
      if (fresh) {
        split_number(op.op_name, stem, number);
        names_.push_back({op.op_name, stem_of(stem), {}, {}});
        Stem& of = stems_[names_.back().stem];
        of.names.push_back(found->second);
        of.same_names = of.same_names && by_name.contains(op.op_name);
      }
      places_[step][found->second].push_back(i);
      std::vector<Run>& runs = names_[found->second].runs;
      const bool other_step = runs.empty() || runs.back().step != step;
      if (other_step && runs.size() < kMostRuns) runs.push_back({step, i});
    }
  }
  for (Stem& stem : stems_) stem.all_dumped = stem.names.size() == stem.ops.size();
}

void HostMatching::index_graph() {
  name_of_op_.resize(graph_.ops.size());
  readers_.resize(graph_.ops.size());
  dirty_.assign(stems_.size(), true);
  scores_.resize(stems_.size());
  leads_.resize(stems_.size());
  for (std::uint32_t to = 0; to < graph_.ops.size(); ++to) {
    const std::vector<HostInput>& inputs = graph_.ops[to].inputs;
    for (std::uint32_t slot = 0; slot < inputs.size(); ++slot) {
      const Reader reader{to, slot, inputs[slot].slot};
      if (inputs[slot].kind == HostInput::Kind::op) readers_[inputs[slot].op].push_back(reader);
      if (inputs[slot].kind == HostInput::Kind::parameter)
        readers_of_parameter_[inputs[slot].parameter].push_back(reader);
    }
  }
  for (std::size_t i = 0; i < graph_.parameters.size() && i < graph_.parameter_types.size(); ++i) {
    parameter_types_.emplace(graph_.parameters[i], &graph_.parameter_types[i]);
  }
}

// The op is found: what is known of its neighbours has changed.
void HostMatching::settle(std::size_t name, std::uint32_t op) {
  names_[name].op = op;
  name_of_op_[op] = name;
  Stem& stem = stems_[names_[name].stem];
  std::erase(stem.names, name);
  std::erase(stem.ops, op);
  dirty_[names_[name].stem] = true;
  for (const HostInput& input : graph_.ops[op].inputs) {
    if (input.kind == HostInput::Kind::op) dirty_[stem_of_op_[input.op]] = true;
    if (input.kind != HostInput::Kind::parameter) continue;
    for (const Reader& reader : readers_of_parameter_[input.parameter]) dirty_[stem_of_op_[reader.op]] = true;
  }
  for (const Reader& reader : readers_[op]) dirty_[stem_of_op_[reader.op]] = true;
}

void HostMatching::settle_by_evidence() {
  for (std::size_t stem = 0; stem < stems_.size(); ++stem) {
    const Stem& of = stems_[stem];
    if (of.names.size() == 1 && of.ops.size() == 1) settle(of.names[0], of.ops[0]);
  }
  do {
    for (bool news = true; news;) {
      news = false;
      for (std::size_t stem = 0; stem < stems_.size(); ++stem) {
        if (!dirty_[stem]) continue;
        while (settle_the_only_one(stem)) news = true;
      }
    }
  } while (settle_the_clearest(false) || settle_one_by_name() || settle_the_clearest(true) || settle_one_by_order());
}

// Where even the best pair contradicts the graph, something else is wrong with these values: names and order count.
bool HostMatching::Score::is_believable(bool same_names) const {
  return fit > -kEvidence || (supported && !same_names);
}

const std::vector<std::vector<HostMatching::Score>>& HostMatching::scores_of(std::size_t index) {
  std::vector<std::vector<Score>>& scores = scores_[index];
  if (!dirty_[index]) return scores;
  dirty_[index] = false;
  leads_[index] = {};
  scores.clear();
  const Stem& stem = stems_[index];
  if (stem.names.size() * stem.ops.size() > kMostPairs) return scores;
  for (const std::size_t name : stem.names) {
    std::vector<Score>& row = scores.emplace_back();
    for (const std::uint32_t op : stem.ops) row.push_back(score(names_[name], op));
  }
  return scores;
}

// All others that an op could be contradict the graph.
bool HostMatching::settle_the_only_one(std::size_t index) {
  const std::vector<std::vector<Score>>& scores = scores_of(index);
  const auto possible = [](const Score& score) { return score.fit > -kEvidence; };
  for (std::size_t row = 0; row < scores.size(); ++row) {
    if (std::ranges::count_if(scores[row], possible) != 1) continue;
    const auto column = static_cast<std::size_t>(std::ranges::find_if(scores[row], possible) - scores[row].begin());
    const Score mine = scores[row][column];
    const auto better = [&](const std::vector<Score>& other) { return mine < other[column]; };
    if (std::ranges::any_of(scores, better)) continue;
    settle(stems_[index].names[row], stems_[index].ops[column]);
    return true;
  }
  return false;
}

// The pair that fits better than any exchange, by the most. `supported`: something speaks for it, although more
// contradicts it.
bool HostMatching::settle_the_clearest(bool supported) {
  Lead best;
  std::size_t of_best = 0;
  for (std::size_t index = 0; index < stems_.size(); ++index) {
    const Lead lead = lead_of(index, supported);
    if (lead.margin <= best.margin) continue;
    best = lead;
    of_best = index;
  }
  if (best.margin == 0) return false;
  settle(stems_[of_best].names[best.row], stems_[of_best].ops[best.column]);
  return true;
}

HostMatching::Lead HostMatching::lead_of(std::size_t index, bool supported) {
  const std::vector<std::vector<Score>>& scores = scores_of(index);
  std::optional<Lead>& known = leads_[index][supported ? 1 : 0];
  if (known) return *known;
  known.emplace();
  const Stem& stem = stems_[index];
  if (scores.empty() || stem.names.size() * stem.ops.size() > kMostExchanged) return *known;
  for (std::size_t row = 0; row < scores.size(); ++row) {
    for (std::size_t column = 0; column < scores[row].size(); ++column) {
      const Score& mine = scores[row][column];
      if (!mine.is_believable(stem.same_names || !supported)) continue;
      int margin = -kOtherSize;
      // An op that the other side lacks may stay alone.
      const bool spare_names = stem.names.size() > stem.ops.size(), spare_ops = stem.ops.size() > stem.names.size();
      for (std::size_t r = 0; r < scores.size(); ++r) {
        if (r == row) continue;
        if (spare_names) margin = std::min(margin, mine.fit - scores[r][column].fit);
        for (std::size_t c = 0; c < scores[r].size(); ++c) {
          if (c == column) continue;
          margin = std::min(margin, mine.fit + scores[r][c].fit - scores[row][c].fit - scores[r][column].fit);
        }
      }
      for (std::size_t c = 0; spare_ops && c < scores[row].size(); ++c) {
        if (c != column) margin = std::min(margin, mine.fit - scores[row][c].fit);
      }
      if (margin > known->margin) *known = {margin, row, column};
    }
  }
  return *known;
}

// Of ops that fit equally well the one with the same name is taken, if both sides have the same names.
bool HostMatching::settle_one_by_name() {
  for (std::size_t stem = 0; stem < stems_.size(); ++stem) {
    bool any = false;
    while (settle_by_name(stem)) any = true;
    if (any) return true;
  }
  return false;
}

bool HostMatching::settle_by_name(std::size_t index) {
  const Stem& stem = stems_[index];
  if (stem.names.empty() || stem.ops.empty() || !stem.same_names) return false;
  const std::vector<std::vector<Score>>& scores = scores_of(index);
  for (std::size_t row = 0; row < stem.names.size(); ++row) {
    for (std::size_t column = 0; column < stem.ops.size(); ++column) {
      if (graph_.ops[stem.ops[column]].op_name != names_[stem.names[row]].name) continue;
      const Score best = scores.empty() ? Score() : *std::ranges::max_element(scores[row], std::less<>{});
      if (!scores.empty() && best.is_believable(true) && scores[row][column] < best) continue;
      settle(stem.names[row], stem.ops[column]);
      return true;
    }
  }
  return false;
}

// The first of each, if the dump has the first step, and an order is known.
bool HostMatching::settle_one_by_order() {
  if (!from_the_first_ || !has_order_) return false;
  for (std::size_t index = 0; index < stems_.size(); ++index) {
    const Stem& stem = stems_[index];
    if (stem.names.empty() || stem.names.size() != stem.ops.size()) continue;
    const std::vector<std::vector<Score>>& scores = scores_of(index);
    std::size_t column = 0;
    if (!scores.empty()) {
      const auto best = std::ranges::max_element(scores[0], std::less<>{});
      if (best->is_believable(false)) column = static_cast<std::size_t>(best - scores[0].begin());
    }
    settle(stem.names[0], stem.ops[column]);
    return true;
  }
  return false;
}

HostMatching::Score HostMatching::score(const Name& name, std::uint32_t op) {
  int sum = 0;
  supported_ = false;
  for (const Run& run : name.runs) sum += score(run, op);
  return {sum, supported_};
}

int HostMatching::score(const Run& run, std::uint32_t candidate) {
  const CatalogOp& op = at(run);
  int sum = score_of_types(op, candidate);
  const std::vector<HostInput>& inputs = graph_.ops[candidate].inputs;
  for (std::uint32_t slot = 0; slot < inputs.size(); ++slot) {
    const CatalogTensor* input = slot_of(op, true, slot);
    if (input == nullptr) continue;
    if (inputs[slot].kind == HostInput::Kind::op) sum += score_of_input(run, *input, inputs[slot]);
    if (inputs[slot].kind == HostInput::Kind::parameter)
      sum += score_of_parameter(run, *input, candidate, slot, inputs[slot].parameter);
  }
  for (const Reader& reader : readers_[candidate]) {
    const CatalogTensor* output = slot_of(op, false, reader.from_slot);
    if (output != nullptr) sum += score_of_reader(run, *output, reader);
  }
  return sum;
}

int HostMatching::score_of_types(const CatalogOp& op, std::uint32_t candidate) {
  const HostOp& of = graph_.ops[candidate];
  int sum = 0, types = 0;
  for (const CatalogTensor& tensor : op.tensors) {
    const HostType* type = nullptr;
    if (!tensor.is_input) {
      if (tensor.slot < of.outputs.size()) type = &of.outputs[tensor.slot];
    } else if (tensor.slot < of.inputs.size()) {
      const HostInput& input = of.inputs[tensor.slot];
      if (input.kind == HostInput::Kind::op && input.slot < graph_.ops[input.op].outputs.size())
        type = &graph_.ops[input.op].outputs[input.slot];
      const auto parameter = parameter_types_.find(input.parameter);
      if (input.kind == HostInput::Kind::parameter && parameter != parameter_types_.end()) type = parameter->second;
    }
    if (type == nullptr) continue;
    const TensorEvidence::Facts& facts = evidence_.of(tensor);
    if (type->has_shape && facts.elements && elements_of(type->shape) != facts.elements) sum += kOtherSize;
    const bool known = type->dtype != DType::undefined && facts.dtype != DType::undefined;
    if (known && type->dtype != facts.dtype) types += kOtherType;
  }
  return sum + std::max(types, -kEvidence / static_cast<int>(kMostRuns) + 1);
}

int HostMatching::score_of_input(const Run& run, const CatalogTensor& input, const HostInput& from) {
  return compared(run, input, from.op, false, from.slot, true);
}

int HostMatching::score_of_reader(const Run& run, const CatalogTensor& output, const Reader& reader) {
  return compared(run, output, reader.op, true, reader.slot, false);
}

// Other readers of the same parameter read the same values, unless it has changed in between; so do those of the next
// step read the values at the end of this one.
int HostMatching::score_of_parameter(const Run& run, const CatalogTensor& input, std::uint32_t op, std::uint32_t slot,
                                     const std::string& parameter) {
  int sum = 0;
  std::size_t looked_at = 0;
  for (const Reader& reader : readers_of_parameter_[parameter]) {
    if (reader.op == op && reader.slot == slot) continue;
    if (++looked_at > kMostSiblings) break;
    int best = compared(run, input, reader.op, true, reader.slot, true);
    if (best <= 0) best = compared(run, input, reader.op, true, reader.slot, false);
    sum += std::max(best, 0);
  }
  for (const std::size_t step : {run.step, run.step - 1}) {
    if (step >= steps_.size()) continue;
    const auto recorded = parameters_[step].find(parameter);
    if (recorded != parameters_[step].end() && evidence_.same(*recorded->second, input) == true) return sum + kSame;
  }
  return sum;
}

int HostMatching::compared(const Run& run, const CatalogTensor& tensor, std::uint32_t op, bool is_input,
                           std::uint32_t slot, bool before) {
  const auto verdict = [&](std::size_t name) -> std::optional<bool> {
    const CatalogOp* other = nearest(run, name, before);
    // An op cannot feed an earlier one.
    if (other == nullptr && !is_input && before && nearest(run, name, false) != nullptr) return false;
    const CatalogTensor* its = other == nullptr ? nullptr : slot_of(*other, is_input, slot);
    return its == nullptr ? std::nullopt : evidence_.same(tensor, *its);
  };
  if (const std::optional<std::size_t> settled = name_of_op_[op]) {
    const std::optional<bool> same = verdict(*settled);
    supported_ = supported_ || same == true;
    return !same ? 0 : *same ? kSame : kDifferent;
  }
  const Stem& stem = stems_[stem_of_op_[op]];
  if (stem.names.size() > kMostPairs / 256) return 0;
  bool all_differ = !stem.names.empty() && stem.all_dumped;
  for (const std::size_t name : stem.names) {
    const std::optional<bool> same = verdict(name);
    supported_ = supported_ || same == true;
    if (same == true) return kMaybeSame;
    all_differ = all_differ && same == false;
  }
  return all_differ ? kDifferent : 0;
}

// The last run of the op before this one, or the first after it, in the same step.
const CatalogOp* HostMatching::nearest(const Run& run, std::size_t name, bool before) const {
  const auto found = places_[run.step].find(name);
  if (found == places_[run.step].end()) return nullptr;
  const std::vector<std::size_t>& places = found->second;
  if (before) {
    const auto after = std::ranges::lower_bound(places, run.index);
    return after == places.begin() ? nullptr : &steps_[run.step]->ops[*(after - 1)];
  }
  const auto after = std::ranges::upper_bound(places, run.index);
  return after == places.end() ? nullptr : &steps_[run.step]->ops[*after];
}

}  // namespace sonde
