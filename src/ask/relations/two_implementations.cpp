#include "ask/relations/two_implementations.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ask/compare/compare_side.h"
#include "ask/unsharded/sites.h"
#include "ask/unsharded/unsharded.h"
#include "ground/base/shape.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_questions.h"
#include "sonde/dtype.h"

namespace sonde {
namespace {

// Fewer operators that are matched by name make two implementations: 0 to 0.1 of ports, 0.2 and more of a program with
// another optimizer or other layers.
constexpr double kLeastCommon = 0.15;

struct FirstStep {
  const CatalogRank* rank = nullptr;
  const CatalogStep* step = nullptr;  // null: there is none
};

FirstStep first_step(const Catalog& catalog, const DumpPart& part) {
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) {
      if (part.takes(rank) && part.takes(step) && !step.ops.empty()) return {&rank, &step};
    }
  }
  return {};
}

std::set<std::string_view> names_in(const FirstStep& first) {
  std::set<std::string_view> names;
  if (first.step == nullptr) return names;
  for (const CatalogOp& op : first.step->ops) {
    if (!op.is_parameter) names.insert(op.op_name);
  }
  return names;
}

// Without the names of wrappers: DDP's and FSDP's parameters are those of the network in them.
std::set<std::string> parameters_in(const Catalog& catalog) {
  std::set<std::string_view> recorded;  // each is read in every step
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) {
      for (const CatalogOp& op : step.ops) {
        for (const CatalogTensor& tensor : op.tensors) {
          if (tensor.parameter.is_parameter()) recorded.insert(tensor.parameter);
        }
      }
    }
  }
  std::set<std::string> names;
  for (const std::string_view name : recorded) names.insert(without_wrappers(name, '.'));
  return names;
}

// "MindSpore" of "MindSpore 2.7.0".
std::string_view framework_of(const Catalog& catalog) {
  if (catalog.ranks.empty() || catalog.ranks.front().runs.empty()) return {};
  const std::string_view host = catalog.ranks.front().runs.front().host;
  return host.substr(0, host.find(' '));
}

std::map<std::string_view, std::int64_t> sizes_in(const CatalogStep& step) {
  std::map<std::string_view, std::int64_t> sizes;
  for (const CatalogOp& op : step.ops) {
    for (const CatalogTensor& tensor : op.tensors) {
      if (op.is_parameter || tensor.is_input || !tensor.has_shape || !is_floating(tensor.dtype)) continue;
      sizes.try_emplace(op.op_name, element_count(tensor.shape));
    }
  }
  return sizes;
}

// A port to another framework whose parameters have the same names is matched by these and by its structure.
bool is_port_by_names(const Catalog& target, const Catalog& golden) {
  return framework_of(target) != framework_of(golden) && have_names_in_common(target, golden);
}

// Operators that have the same name, shape, parameters and neighbours.
double share_matched_by_name(const FirstStep& target, const FirstStep& golden, const CompareOptions& options) {
  OpFamilies families;
  CompareSide mine = side_of(*target.rank, *target.step, families),
              theirs = side_of(*golden.rank, *golden.step, families);
  if (mine.ops.empty()) return 1;
  const auto no_values = [](const CatalogTensor&, const CatalogTensor&) { return false; };
  const std::vector<OpMatch> matches = match_ops(mine, theirs, options.names, no_values);
  const auto by_name = std::ranges::count(matches, MatchedBy::name, &OpMatch::how);
  return static_cast<double>(by_name) / static_cast<double>(matches.size());
}

// Codes of weights or results lose precision in every layer, which compare_runs() judges by layers.
bool keeps_codes(const Catalog& catalog) {
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) {
      for (const CatalogOp& op : step.ops) {
        if (!op.is_parameter && is_quantised(bare_type(op.op_type))) return true;
        for (const CatalogTensor& tensor : op.tensors) {
          const bool has_codes =
              tensor.dtype != DType::undefined && tensor.dtype != DType::bool8 && info(tensor.dtype).item_bytes == 1;
          if (has_codes && tensor.parameter.is_parameter()) return true;
        }
      }
    }
  }
  return false;
}

}  // namespace

bool are_of_two_frameworks(const Catalog& target, const Catalog& golden) {
  return framework_of(target) != framework_of(golden);
}

bool has_journals(const Catalog& catalog) { return std::ranges::all_of(catalog.ranks, &CatalogRank::has_journal); }

bool have_names_in_common(const Catalog& target, const Catalog& golden) {
  const std::set<std::string> mine = parameters_in(target), theirs = parameters_in(golden);
  const auto common = std::ranges::count_if(mine, [&](const std::string& name) { return theirs.contains(name); });
  // States of optimizers and statistics of norms have each framework's own names.
  return common > 0 && 4 * static_cast<std::size_t>(common) >= std::min(mine.size(), theirs.size());
}

bool are_two_implementations(const Catalog& target, const Catalog& golden, const CompareOptions& options) {
  if (options.map != nullptr) return true;
  if (!options.names.empty() || options.golden_part) return false;
  if (target.ranks.size() != golden.ranks.size()) return false;  // one of them is sharded
  if (are_two_shardings(target, golden)) return false;
  const FirstStep first = first_step(target, options.part), golden_first = first_step(golden, options.part);
  const std::set<std::string_view> mine = names_in(first), theirs = names_in(golden_first);
  // One that is fused may consist of very few.
  constexpr std::size_t kFewest = 2, kFewestTogether = 8;
  if (std::min(mine.size(), theirs.size()) < kFewest || mine.size() + theirs.size() < kFewestTogether) return false;
  const auto common = std::ranges::count_if(mine, [&](std::string_view name) { return theirs.contains(name); });
  // One program: the names alone show it.
  if (2 * static_cast<std::size_t>(common) >= std::max(mine.size(), theirs.size())) return false;
  if (is_port_by_names(target, golden)) return false;
  if (share_matched_by_name(first, golden_first, options) >= kLeastCommon && have_names_in_common(target, golden)) {
    return false;
  }
  return keeps_codes(target) == keeps_codes(golden);
}

bool have_other_lengths(const Catalog& target, const Catalog& golden) {
  if (target.ranks.size() != 1 || golden.ranks.size() != 1) return false;
  const std::vector<CatalogStep>&mine = target.ranks[0].steps, &theirs = golden.ranks[0].steps;
  for (std::size_t i = 0; i < std::min(mine.size(), theirs.size()); ++i) {
    const auto sizes = sizes_in(mine[i]), golden_sizes = sizes_in(theirs[i]);
    const auto is_other = [&](const auto& own) {
      const auto found = golden_sizes.find(own.first);
      return found != golden_sizes.end() && found->second != own.second;
    };
    if (2 * static_cast<std::size_t>(std::ranges::count_if(sizes, is_other)) > sizes.size()) return true;
  }
  return false;
}

}  // namespace sonde
