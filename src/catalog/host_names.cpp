#include "catalog/host_names.h"

#include <algorithm>
#include <map>
#include <set>

#include "catalog/same_values.h"
#include "formats/file_names.h"
#include "graph/execution_order.h"

namespace sonde {
namespace {

constexpr std::size_t kMostPairs = 4096;            // names of files times ops of the graph, compared by values
constexpr std::size_t kMostRuns = 3;                // of an op that are compared
constexpr std::uint64_t kMostBytes = 256ULL << 20;  // of tensor files, for one group

// One run of an op: its step, and its place in it.
struct Run {
  const CatalogStep* step;
  std::size_t index;
  const CatalogOp& op() const { return step->ops[index]; }
};

const CatalogTensor* slot_of(const CatalogOp& op, bool is_input, std::uint32_t slot) {
  const auto found = std::ranges::find_if(
      op.tensors, [&](const CatalogTensor& tensor) { return tensor.is_input == is_input && tensor.slot == slot; });
  return found == op.tensors.end() ? nullptr : &*found;
}

// The last run of the op before this one, or the first after it.
const CatalogOp* nearest_run(const Run& run, std::string_view op_name, bool before) {
  const std::vector<CatalogOp>& ops = run.step->ops;
  if (before) {
    for (std::size_t i = run.index; i-- > 0;) {
      if (ops[i].op_name == op_name) return &ops[i];
    }
  } else {
    for (std::size_t i = run.index + 1; i < ops.size(); ++i) {
      if (ops[i].op_name == op_name) return &ops[i];
    }
  }
  return nullptr;
}

std::vector<SourceLine> common_trace(const std::vector<SourceLine>& a, const std::vector<SourceLine>& b) {
  std::size_t same = 0;
  while (same < a.size() && same < b.size() && a[same] == b[same]) ++same;
  return {a.begin(), a.begin() + static_cast<std::ptrdiff_t>(same)};
}

}  // namespace

// Ops of one scope and type whose numbers in the dump do not occur in the graph.
struct HostNames::Group {
  std::vector<std::string_view> names;  // in the dump, in the order of their first runs
  std::map<std::string_view, std::vector<Run>> runs;
  std::vector<std::uint32_t> candidates;  // in the graph, in the order of their first runs if that is known
  bool orders_agree = false;              // both are in the order of the first step of the run
};

namespace {

// How well the values of a run fit an op of the graph: agreements minus contradictions, over those of its sources and
// readers that have one name in both.
class Fit {
 public:
  Fit(const HostGraph& graph, const CatalogRank& rank) : graph_(graph), same_(rank, kMostBytes) {}

  int operator()(const Run& run, std::uint32_t candidate) {
    int fit = 0;
    const std::vector<HostInput>& inputs = graph_.ops[candidate].inputs;
    for (std::uint32_t slot = 0; slot < inputs.size(); ++slot) {
      if (inputs[slot].kind != HostInput::Kind::op) continue;
      const std::string& name = graph_.ops[inputs[slot].op].op_name;
      if (const CatalogOp* source = nearest_run(run, name, true)) {
        fit += compared(slot_of(*source, false, inputs[slot].slot), slot_of(run.op(), true, slot));
      } else if (nearest_run(run, name, false) != nullptr) {
        --fit;  // an op cannot feed an earlier one
      }
    }
    for (const Reader& reader : readers_of(candidate)) {
      const CatalogOp* op = nearest_run(run, graph_.ops[reader.op].op_name, false);
      if (op != nullptr) fit += compared(slot_of(run.op(), false, reader.from_slot), slot_of(*op, true, reader.slot));
    }
    return fit;
  }

 private:
  struct Reader {
    std::uint32_t op, slot, from_slot;
  };

  const std::vector<Reader>& readers_of(std::uint32_t op) {
    if (readers_.empty()) {
      readers_.resize(graph_.ops.size());
      for (std::uint32_t to = 0; to < graph_.ops.size(); ++to) {
        const std::vector<HostInput>& inputs = graph_.ops[to].inputs;
        for (std::uint32_t slot = 0; slot < inputs.size(); ++slot) {
          if (inputs[slot].kind == HostInput::Kind::op)
            readers_[inputs[slot].op].push_back({to, slot, inputs[slot].slot});
        }
      }
    }
    return readers_[op];
  }

  int compared(const CatalogTensor* a, const CatalogTensor* b) {
    if (a == nullptr || b == nullptr) return 0;
    const std::optional<bool> same = same_(*a, *b);
    return !same ? 0 : *same ? 1 : -1;
  }

  const HostGraph& graph_;
  SameValues same_;
  std::vector<std::vector<Reader>> readers_;
};

// Pairs that fit each other better than anything else; they are removed from both lists, until none is
// left.
std::vector<std::pair<std::string_view, std::uint32_t>> best_pairs(const std::vector<std::vector<int>>& fits,
                                                                   std::vector<std::string_view>& names,
                                                                   std::vector<std::uint32_t>& candidates) {
  std::vector<std::size_t> rows(names.size()), columns(candidates.size());
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = i;
  std::vector<std::pair<std::string_view, std::uint32_t>> pairs;
  const auto is_best = [&](std::size_t row, std::size_t column) {
    const int fit = fits[row][column];
    const bool is_last = !pairs.empty() && rows.size() == 1 && columns.size() == 1;
    if (fit <= 0 && !is_last) return false;
    const bool of_row = std::ranges::all_of(columns, [&](std::size_t c) { return c == column || fits[row][c] < fit; });
    return of_row && std::ranges::all_of(rows, [&](std::size_t r) { return r == row || fits[r][column] < fit; });
  };
  for (bool found = true; found;) {
    found = false;
    for (const std::size_t row : rows) {
      const auto column = std::ranges::find_if(columns, [&](std::size_t c) { return is_best(row, c); });
      if (column == columns.end()) continue;
      pairs.emplace_back(names[row], candidates[*column]);
      columns.erase(column);
      std::erase(rows, row);
      found = true;
      break;
    }
  }
  std::vector<std::string_view> names_left;
  std::vector<std::uint32_t> candidates_left;
  for (const std::size_t row : rows) names_left.push_back(names[row]);
  for (const std::size_t column : columns) candidates_left.push_back(candidates[column]);
  names = std::move(names_left);
  candidates = std::move(candidates_left);
  return pairs;
}

}  // namespace

HostNames::HostNames(const HostGraph& graph, const std::vector<std::string>& order, const CatalogRank& rank,
                     const std::vector<CatalogStep*>& steps, TextPool& texts)
    : graph_(graph), rank_(rank) {
  for (std::uint32_t i = 0; i < graph.ops.size(); ++i) by_name_.emplace(graph.ops[i].op_name, i);
  if (!rank.has_journal) {
    name_ops(steps, texts);
  }
  for (Group& group : groups_of(steps, order)) match(group);
}

std::optional<std::uint32_t> HostNames::find(std::string_view op_name) const {
  if (const auto found = by_name_.find(op_name); found != by_name_.end()) return found->second;
  if (const auto found = made_anew_.find(op_name); found != made_anew_.end()) return found->second;
  return std::nullopt;
}

// Names of files have `_` for `/`, and dots.
void HostNames::name_ops(const std::vector<CatalogStep*>& steps, TextPool& texts) const {
  std::unordered_map<std::string, std::string_view> stems, parameters;
  for (const HostOp& op : graph_.ops) {
    std::string_view stem;
    std::uint64_t number = 0;
    if (split_number(op.op_name, stem, number)) stems.emplace(sanitised(stem), stem);
  }
  for (const std::string& parameter : graph_.parameters) parameters.emplace(sanitised(parameter), parameter);
  const auto name = [&](CatalogOp& op) {
    std::string_view stem;
    std::uint64_t number = 0;
    if (op.is_parameter) {
      const auto found = parameters.find(sanitised(op.op_name));
      if (found != parameters.end()) op.op_name = texts.keep(found->second);
    } else if (!by_name_.contains(op.op_name) && split_number(op.op_name, stem, number)) {
      const auto found = stems.find(sanitised(stem));
      if (found == stems.end()) return;
      op.op_name = texts.keep(std::string(found->second) + std::string(op.op_name.substr(stem.size())));
    }
  };
  for (CatalogStep* step : steps) std::ranges::for_each(step->ops, name);
}

std::vector<HostNames::Group> HostNames::groups_of(const std::vector<CatalogStep*>& steps,
                                                   const std::vector<std::string>& order) const {
  std::map<std::string_view, Group> groups;
  std::set<std::string_view> named;  // in the dump
  bool from_the_first = false;       // the first step of the run is among them
  for (const CatalogStep* step : steps) {
    from_the_first = from_the_first || (step == steps.front() && step->id.number == 0);
    for (std::size_t i = 0; i < step->ops.size(); ++i) {
      const CatalogOp& op = step->ops[i];
      std::string_view stem;
      std::uint64_t number = 0;
      if (op.is_parameter) continue;
      if (by_name_.contains(op.op_name)) {
        named.insert(op.op_name);
      } else if (split_number(op.op_name, stem, number)) {
        Group& group = groups[stem];
        std::vector<Run>& runs = group.runs[op.op_name];
        if (runs.empty()) group.names.push_back(op.op_name);
        if (runs.size() < kMostRuns) runs.push_back({step, i});
      }
    }
  }
  std::map<std::string_view, std::vector<std::uint32_t>> unnamed;
  const auto add = [&](std::uint32_t op) {
    std::string_view stem;
    std::uint64_t number = 0;
    const std::string& name = graph_.ops[op].op_name;
    if (!named.insert(name).second || !split_number(name, stem, number)) return;
    if (groups.contains(stem)) unnamed[stem].push_back(op);
  };
  for (const std::string& name : order) {
    if (const auto found = by_name_.find(name); found != by_name_.end()) add(found->second);
  }
  for (std::uint32_t op = 0; op < graph_.ops.size(); ++op) add(op);
  std::vector<Group> found;
  for (auto& [stem, candidates] : unnamed) {
    Group& group = groups[stem];
    group.candidates = std::move(candidates);
    group.orders_agree = from_the_first && !order.empty();
    found.push_back(std::move(group));
  }
  return found;
}

void HostNames::match(Group& group) {
  uncertain_.insert(group.candidates.begin(), group.candidates.end());
  if (group.names.size() == 1 && group.candidates.size() == 1) {
    made_anew_.emplace(group.names[0], group.candidates[0]);
    return;
  }
  if (group.names.size() * group.candidates.size() <= kMostPairs) {
    Fit fit(graph_, rank_);
    std::vector<std::vector<int>> fits(group.names.size());
    for (std::size_t row = 0; row < fits.size(); ++row) {
      for (const std::uint32_t candidate : group.candidates) {
        int sum = 0;
        for (const Run& run : group.runs[group.names[row]]) sum += fit(run, candidate);
        fits[row].push_back(sum);
      }
    }
    for (const auto& [name, op] : best_pairs(fits, group.names, group.candidates)) made_anew_.emplace(name, op);
  }
  if (group.orders_agree && group.names.size() == group.candidates.size()) {
    for (std::size_t i = 0; i < group.names.size(); ++i) made_anew_.emplace(group.names[i], group.candidates[i]);
  } else if (group.names.size() <= group.candidates.size()) {
    add_common(group);
  }
}

void HostNames::add_common(const Group& group) {
  if (group.names.empty()) return;
  HostOp common = graph_.ops[group.candidates[0]];
  common.op_name.clear();
  for (const std::uint32_t candidate : group.candidates) {
    const HostOp& op = graph_.ops[candidate];
    common.trace = common_trace(common.trace, op.trace);
    if (common.inputs.size() > op.inputs.size()) common.inputs.resize(op.inputs.size());
    for (std::size_t slot = 0; slot < common.inputs.size(); ++slot) {
      if (!(common.inputs[slot] == op.inputs[slot])) common.inputs[slot] = HostInput();
    }
    std::erase_if(common.attributes, [&](const Attribute& attribute) {
      return std::ranges::find(op.attributes, attribute) == op.attributes.end();
    });
  }
  for (const std::string_view name : group.names) common_.emplace(name, common);
}

}  // namespace sonde
