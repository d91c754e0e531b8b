#include "ask/compare/op_features.h"

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "ground/base/text.h"
#include "ground/tensor/mix.h"
#include "read/catalog/step_graph.h"
#include "read/measure/tensor_difference.h"
#include "read/operators/op_questions.h"

namespace sonde {
namespace {

std::uint64_t hash_of(std::string_view text) { return std::hash<std::string_view>()(text); }

// Names that were used as file names have `_` for `/` and `.`.
std::uint64_t name_hash(std::string_view name) {
  std::string flat(name);
  for (char& c : flat) {
    if (c == '/' || c == '.') c = '_';
  }
  return hash_of(flat);
}

// The module's own name: `fc2` of `Default/network-Net/fc2-Linear/Grad_linear`, which other frameworks have, too.
std::string_view leaf_of(std::string_view scope) {
  while (!scope.empty()) {
    const std::size_t slash = scope.rfind('/');
    std::string_view part = slash == std::string_view::npos ? scope : scope.substr(slash + 1);
    if (!part.starts_with("Grad_")) return part.substr(0, part.find('-'));
    scope = slash == std::string_view::npos ? std::string_view() : scope.substr(0, slash);
  }
  return scope;
}

std::uint64_t shape_hash(const CatalogTensor* tensor, bool sorted) {
  if (tensor == nullptr || !tensor->has_shape) return 0;
  std::vector<std::int64_t> shape = squeezed(tensor->shape);
  if (sorted) std::ranges::sort(shape);
  std::uint64_t hash = 1;
  for (const std::int64_t size : shape) mix(hash, static_cast<std::uint64_t>(size));
  return hash;
}

}  // namespace

std::vector<OpFeatures> features_of(const CompareSide& side) {
  std::vector<OpFeatures> all(side.ops.size());
  for (std::size_t i = 0; i < side.ops.size(); ++i) {
    const CompareOp& op = side.ops[i];
    OpFeatures& features = all[i];
    features.name = name_hash(op.op->op_name);
    features.scope = op.scope.empty() ? 0 : hash_of(op.scope);
    features.leaf = op.scope.empty() ? 0 : hash_of(leaf_of(op.scope));
    if (op.op->line != 0) {
      features.line = hash_of(op.op->source_file.substr(op.op->source_file.rfind('/') + 1));
      mix(features.line, op.op->line);
    }
    features.shape = shape_hash(main_output(op), false);
    features.shape_set = shape_hash(main_output(op), true);
    features.phase = op.op->phase;
    features.of_lists = is_list_op(op.op->op_type);
    for (const CompareInput& input : op.inputs) {
      if (input.from == kNoOp && input.outside != 0) {
        // Data without a name are the same by their values: that says less than the neighbours.
        mix(input.name.empty() ? features.data : features.parameters, input.outside);
        if (features.parameter == 0 && !input.name.empty()) features.parameter = input.outside;
      } else if (input.from != kNoOp) {
        mix(features.before, side.ops[input.from].family->front());
      }
    }
    for (const std::uint32_t reader : op.readers) mix(features.after, side.ops[reader].family->front());
  }
  return all;
}

std::vector<std::uint64_t> codes_of_lines(const CompareSide& side) {
  SourceTexts sources = sources_of(*side.rank);
  std::map<std::pair<std::string_view, std::uint32_t>, std::uint64_t> known;
  std::vector<std::uint64_t> codes(side.ops.size(), 0);
  for (std::size_t i = 0; i < codes.size(); ++i) {
    const CatalogOp& op = *side.ops[i].op;
    if (op.line == 0) continue;
    const auto [at, is_new] = known.try_emplace({op.source_file, op.line}, 0);
    if (is_new) {
      const std::string_view text = trimmed(sources.line(std::string(op.source_file), op.line));
      at->second = text.empty() ? 0 : hash_of(text);
    }
    codes[i] = at->second;
  }
  return codes;
}

}  // namespace sonde
