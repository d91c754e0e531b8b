#include "read/catalog/select_steps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "plan/config/nearest.h"
#include "read/catalog/select.h"

namespace sonde {
namespace {

constexpr std::size_t kMostNames = 20000;  // compared with a mistyped one

// The answers of all patterns for a name, found once per name: texts of a catalog are kept once.
class PatternMatcher {
 public:
  explicit PatternMatcher(const std::vector<std::string>& patterns) : patterns_(patterns), hits_(patterns.size(), 0) {}

  bool matches(const CatalogOp& op) {
    if (patterns_.empty()) return true;
    bool any = false;
    for (const std::size_t hit : hits_of(op)) {
      ++hits_[hit];
      any = true;
    }
    return any;
  }
  std::vector<std::string> unmatched() const {
    std::vector<std::string> unmatched;
    for (std::size_t i = 0; i < patterns_.size(); ++i) {
      if (hits_[i] == 0) unmatched.push_back(patterns_[i]);
    }
    return unmatched;
  }

 private:
  const std::vector<std::size_t>& hits_of(const CatalogOp& op) {
    const auto [at, is_new] = known_.try_emplace(op.op_name.data());
    if (is_new) {
      for (std::size_t i = 0; i < patterns_.size(); ++i) {
        if (selects(patterns_[i], op.op_name, op.op_type)) at->second.push_back(i);
      }
    }
    return at->second;
  }

  const std::vector<std::string>& patterns_;
  std::vector<std::uint64_t> hits_;
  std::unordered_map<const char*, std::vector<std::size_t>> known_;
};

}  // namespace

StepSelection select_steps(Catalog& catalog, const DumpPart& part, const std::vector<std::string>& patterns) {
  PatternMatcher matcher(patterns);
  StepSelection selection;
  for (CatalogRank& rank : catalog.ranks) {
    if (!part.takes(rank)) continue;
    for (CatalogStep& step : rank.steps) {
      if (!part.takes(step)) continue;
      SelectedStep& chosen = selection.steps.emplace_back();
      chosen.rank = &rank;
      chosen.step = &step;
      for (CatalogOp& op : step.ops) {
        if (matcher.matches(op)) chosen.ops.push_back(&op);
      }
    }
  }
  selection.unmatched = matcher.unmatched();
  return selection;
}

std::string nearest_ops(const std::vector<SelectedStep>& steps, const std::string& name) {
  // Types, then last parts, then full names: what people type is short.
  std::set<std::string_view> types, parts, names;
  for (const SelectedStep& step : steps) {
    for (const CatalogOp& op : step.step->ops) {
      types.insert(op.op_type);
      const std::size_t slash = op.op_name.rfind('/');
      parts.insert(slash == std::string_view::npos ? op.op_name : op.op_name.substr(slash + 1));
      names.insert(op.op_name);
      for (const CatalogTensor& tensor : op.tensors) {
        if (!tensor.parameter.empty()) names.insert(tensor.parameter);
      }
    }
  }
  std::vector<std::string_view> candidates(types.begin(), types.end());
  if (name.find('/') == std::string::npos) {
    candidates.insert(candidates.end(), parts.begin(), parts.end());
  }
  candidates.insert(candidates.end(), names.begin(), names.end());
  std::erase(candidates, std::string_view());
  if (candidates.size() > kMostNames) candidates.resize(kMostNames);
  std::vector<std::string> near = nearest(name, candidates, 3);
  std::erase_if(near, [&](const std::string& candidate) { return !is_close(name, candidate); });
  return near.empty() ? "" : fmt::format("nearest: {}", fmt::join(near, ", "));
}

bool any_recorded(const Catalog& catalog) {
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) {
      for (const CatalogOp& op : step.ops) {
        if (std::ranges::any_of(op.tensors, &CatalogTensor::recorded)) return true;
      }
    }
  }
  return false;
}

}  // namespace sonde
