#include "ask/relations/padding_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ask/compare/compare_words.h"
#include "ask/relations/data_apart.h"
#include "ask/relations/standings.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_family.h"

namespace sonde {
namespace {

struct AxisPadding {
  std::int64_t before = 0, behind = 0;
};

// From the last axis on, those that are padded.
std::vector<AxisPadding> paddings_of(const CatalogOp& op) {
  std::vector<AxisPadding> found;
  const Attribute* pad = attribute_of(op, "pad");
  if (pad == nullptr) return found;
  for (std::size_t i = 0; i + 1 < pad->integers.size(); i += 2) {
    const AxisPadding one{pad->integers[i], pad->integers[i + 1]};
    if (one.before < 0 || one.behind < 0) return {};  // it cuts
    if (one.before != 0 || one.behind != 0) found.push_back(one);
  }
  return found;
}

// "replicate", where a convolution puts zeros; empty: it puts zeros, too.
std::string other_mode_of(const CatalogOp& op) {
  const Attribute* mode = attribute_of(op, "mode");
  return mode == nullptr || mode->text == "constant" ? "" : mode->text;
}

// How many elements it adds at either end of an axis, if it is one number for all; 0: none, or it is not known.
std::int64_t padding_of_convolution(const Pool& golden, std::uint32_t op) {
  if (golden.op(op).kind != OpKind::contraction) return 0;
  const Attribute* padding = attribute_of(golden.catalog_op(op), "padding");
  if (padding == nullptr || padding->integers.empty()) return 0;
  const std::int64_t first = padding->integers.front();
  return std::ranges::all_of(padding->integers, [&](std::int64_t one) { return one == first; }) ? first : 0;
}

// Its result is cut before anything else reads it.
bool is_cut(const Pool& golden, std::uint32_t op) {
  return std::ranges::any_of(golden.ops[op].outputs, [&](std::uint32_t output) {
    return std::ranges::any_of(golden.tensors[output].readers, [&](std::uint32_t reader) {
      return moves_or_casts(golden.op(reader).kind) && chooses(golden, reader);
    });
  });
}

// By golden tensor: one of the target is all of it. A part of what a convolution gives may be the wrong one.
std::vector<char> met_as_a_whole(const Pool& golden, const RelationJudgement& judgement) {
  std::vector<char> met(golden.tensors.size());
  for (const Relation& relation : judgement.relations) {
    if (relation.is_whole()) met[relation.golden()] = 1;
  }
  return met;
}

// A golden convolution that pads the data and gives what the target has not, and its padding.
std::pair<std::uint32_t, std::int64_t> convolution_of(const Pool& golden, const std::vector<char>& met,
                                                      std::uint32_t data) {
  const RoundedNumbers wanted = rounded_numbers(golden.tensors[data].print);
  for (std::uint32_t op = 0; op < golden.ops.size(); ++op) {
    if (std::ranges::any_of(golden.ops[op].outputs, [&](std::uint32_t output) { return met[output] != 0; })) continue;
    const std::int64_t padding = padding_of_convolution(golden, op);
    const std::vector<std::uint32_t>& inputs = golden.ops[op].inputs;
    const auto is_it = [&](std::uint32_t input) { return rounded_numbers(golden.tensors[input].print) == wanted; };
    if (padding > 0 && std::ranges::any_of(inputs, is_it)) return {op, padding};
  }
  return {kNoOp, 0};
}

}  // namespace

std::optional<NumberApart> padding_apart(const Pool& target, const Pool& golden, const RelationJudgement& judgement,
                                         std::uint32_t last) {
  const std::vector<char> met = met_as_a_whole(golden, judgement);
  for (std::uint32_t op = 0; op <= last; ++op) {
    const std::vector<AxisPadding> paddings = paddings_of(target.catalog_op(op));
    if (paddings.empty() || target.ops[op].inputs.empty()) continue;
    const std::uint32_t data = target.ops[op].inputs.front();
    if (!is_surely_golden(judgement, data)) continue;
    const auto [convolution, golden_padding] = convolution_of(golden, met, judgement.relations[data].golden());
    if (convolution == kNoOp) continue;
    const CatalogOp& other = golden.catalog_op(convolution);
    if (const std::string mode = other_mode_of(target.catalog_op(op)); !mode.empty()) {
      return NumberApart{
          op, fmt::format("pads by the mode {}, and golden {}, {} with zeros", mode, other.op_type, place_text(other))};
    }
    const bool may_lack_behind = is_cut(golden, convolution);
    for (const auto& [before, behind] : paddings) {
      if (before == golden_padding && (behind == golden_padding || may_lack_behind)) continue;
      return NumberApart{op, fmt::format("puts {} elements before and {} behind, and golden {}, {} at either end {}",
                                         before, behind, other.op_type, place_text(other), golden_padding)};
    }
  }
  return std::nullopt;
}

}  // namespace sonde
