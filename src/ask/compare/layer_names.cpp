#include "ask/compare/layer_names.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "ground/base/text.h"

namespace sonde {
namespace {

struct Level {
  std::string_view name, module_class;  // no class: the record of a module inside of it, or of another op, knows it
};

// "network-Net/fc-Linear" of "Gradients/Default/network-Net/fc-Linear/linear-op0". Dumps of msprobe have the scope alone;
// an op that is a module itself belongs to the layer around it.
std::string_view scope_with_layers(const CompareOp& op) {
  constexpr std::string_view kDefault = "Default/";
  const std::string_view name = op.op->op_name;
  const std::size_t at = name.find(kDefault);
  if (at == std::string_view::npos) return op.op->scope;
  const std::size_t begin = at + kDefault.size(), end = name.rfind('/');
  return end < begin || end == std::string_view::npos ? std::string_view() : name.substr(begin, end - begin);
}

std::vector<Level> levels_of(const CompareOp& op) {
  std::vector<Level> levels;
  const std::string_view scope = scope_with_layers(op);
  if (scope.empty()) return levels;
  for (const std::string_view part : split(scope, '/')) {
    const std::size_t dash = part.find('-');
    const bool has_class = dash != std::string_view::npos;
    if (part.starts_with("Grad_")) continue;  // MindSpore's, inside of a layer
    levels.push_back({part.substr(0, dash), has_class ? part.substr(dash + 1) : std::string_view()});
  }
  return levels;
}

std::string joined(const std::string& path, std::string_view name) {
  return path.empty() ? std::string(name) : path + "." + std::string(name);
}

// The longest path of a rule that the levels from `first` on begin with; 0 levels: none.
struct Applied {
  std::size_t levels = 0;
  std::string_view golden = {};
};
Applied applied(const std::map<std::string, std::string, std::less<>>& rules, const std::vector<Level>& levels,
                std::size_t first) {
  Applied found;
  std::string path;
  for (std::size_t i = first; i < levels.size(); ++i) {
    path = joined(path, levels[i].name);
    const auto rule = rules.find(path);
    if (rule != rules.end()) found = {i + 1 - first, rule->second};
  }
  return found;
}

}  // namespace

std::string layer_of(const CompareOp& op) {
  std::string path;
  for (const Level& level : levels_of(op)) path = joined(path, level.name);
  return path;
}

std::vector<std::string> golden_layers_of(const CompareSide& side, const LayerNames& names) {
  std::map<std::string, std::string_view> classes = {{"", kTopLayer}};  // by layer
  for (const CompareOp& op : side.ops) {
    std::string path;
    for (const Level& level : levels_of(op)) {
      path = joined(path, level.name);
      if (!level.module_class.empty()) classes.try_emplace(path, level.module_class);
    }
  }
  std::vector<std::string> golden(side.ops.size());
  for (std::size_t i = 0; i < golden.size(); ++i) {
    const std::vector<Level> levels = levels_of(side.ops[i]);
    std::string path;
    for (std::size_t at = 0; at < levels.size();) {
      const auto module_class = classes.find(path);
      const auto rules = module_class == classes.end() ? names.end() : names.find(module_class->second);
      const Applied rule = rules == names.end() ? Applied{} : applied(rules->second, levels, at);
      golden[i] = joined(golden[i], rule.levels > 0 ? rule.golden : levels[at].name);
      for (const std::size_t end = at + std::max<std::size_t>(rule.levels, 1); at < end; ++at) {
        path = joined(path, levels[at].name);
      }
    }
  }
  return golden;
}

}  // namespace sonde
