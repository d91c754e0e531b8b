#include "ask/compare/op_blocks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ask/compare/op_features.h"
#include "read/operators/op_nature.h"

namespace sonde {
namespace {

using Ops = std::vector<std::uint32_t>;
using Place = std::pair<std::uint64_t, std::string_view>;  // the text of the line, the scope

// One of the two sides: its ops by their lines, and those to which no op of the same work on the same line belongs.
struct Lines {
  const CompareSide& side;
  std::vector<std::uint64_t> codes;
  std::vector<bool> lone;
  std::map<Place, Ops> at;  // of the forward pass

  explicit Lines(const CompareSide& of) : side(of), codes(codes_of_lines(of)), lone(of.ops.size(), false) {
    for (std::uint32_t i = 0; i < codes.size(); ++i) {
      if (phase_of(*of.ops[i].op) != Phase::forward) codes[i] = 0;
      if (codes[i] != 0) at[place_of(i)].push_back(i);
    }
  }
  Place place_of(std::uint32_t op) const { return {codes[op], side.ops[op].scope}; }
  bool computes(std::uint32_t op) const { return !moves_or_casts(side.ops[op].kind) && !side.ops[op].outputs.empty(); }
};

bool may_be_lone(const CompareSide& side, const CompareSide& other, std::uint32_t op, std::uint32_t of) {
  return of == kNoOp || !OpFamilies::same(*side.ops[op].family, *other.ops[of].family) ||
         (side.ops[op].op->line != other.ops[of].op->line);
}

bool has_lone(const CompareSide& side, const CompareSide& other, const Ops& of) {
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    if (phase_of(*side.ops[i].op) == Phase::forward && may_be_lone(side, other, i, of[i])) return true;
  }
  return false;
}

void note_lone(Lines& lines, const Lines& other, const Ops& of) {
  for (std::uint32_t i = 0; i < of.size(); ++i) {
    if (lines.codes[i] == 0) continue;
    lines.lone[i] = of[i] == kNoOp || lines.codes[i] != other.codes[of[i]] ||
                    !OpFamilies::same(*lines.side.ops[i].family, *other.side.ops[of[i]].family);
  }
}

bool gives_shape_of(const CompareSide& side, std::uint32_t op, const CompareOp& other) {
  const CatalogTensor &mine = *side.ops[op].outputs[0], &theirs = *other.outputs[0];
  return mine.has_shape && theirs.has_shape && mine.shape == theirs.shape;
}

// The op, and the ops of its line that lead to it.
Ops leading_to(const Lines& lines, std::uint32_t end, const auto& belongs) {
  std::set<std::uint32_t> found = {end};
  Ops open = {end};
  while (!open.empty()) {
    const std::uint32_t op = open.back();
    open.pop_back();
    for (const CompareInput& input : lines.side.ops[op].inputs) {
      const bool is_of_line = input.from != kNoOp && lines.codes[input.from] == lines.codes[end] &&
                              lines.side.ops[input.from].scope == lines.side.ops[end].scope;
      if (is_of_line && belongs(input.from) && found.insert(input.from).second) open.push_back(input.from);
    }
  }
  return {found.begin(), found.end()};
}

// The ops of `many` that compute what `single` computes on its own side; empty: none are known.
Ops parts_of(const Lines& one, std::uint32_t single, const Lines& many, const Ops& of_many, const auto& same_result) {
  const auto place = many.at.find(one.place_of(single));
  if (place == many.at.end()) return {};
  const CompareOp& whole = one.side.ops[single];
  const auto lone_at = [](const Lines& lines, const Place& at) {
    const auto found = lines.at.find(at);
    return std::ranges::count_if(found->second, [&](std::uint32_t op) { return lines.lone[op] && lines.computes(op); });
  };
  const bool is_only_one = lone_at(one, place->first) == 1;
  // Ops that belong to those before the whole make what it reads.
  const auto may_belong = [&](std::uint32_t op) {
    return of_many[op] == kNoOp || many.lone[op] || of_many[op] >= single;
  };
  const auto gives_result = [&](std::uint32_t op) { return many.computes(op) && gives_shape_of(many.side, op, whole); };
  const auto by_value = std::find_if(place->second.rbegin(), place->second.rend(), [&](std::uint32_t op) {
    return gives_result(op) && same_result(*many.side.ops[op].outputs[0], *whole.outputs[0]);
  });
  auto end = by_value;
  if (by_value == place->second.rend() && is_only_one) {
    end = std::find_if(place->second.rbegin(), place->second.rend(),
                       [&](std::uint32_t op) { return many.lone[op] && many.computes(op); });
  }
  if (end == place->second.rend() || !gives_result(*end)) return {};
  Ops parts = leading_to(many, *end, may_belong);
  return parts.size() > 1 ? parts : Ops();
}

// Blocks, none of which has an op of another.
struct Blocks {
  std::vector<OpBlock> all;
  std::set<std::uint32_t> target, golden;  // their ops

  void add(OpBlock block) {
    const auto is_used = [](const std::set<std::uint32_t>& used, const Ops& ops) {
      return std::ranges::any_of(ops, [&](std::uint32_t op) { return used.contains(op); });
    };
    if (is_used(target, block.target) || is_used(golden, block.golden)) return;
    target.insert(block.target.begin(), block.target.end());
    golden.insert(block.golden.begin(), block.golden.end());
    all.push_back(std::move(block));
  }
};

// A block may have taken the counterpart of another op of its line.
void pair_rests(const Lines& mine, const Lines& theirs, const Ops& of_target, const Ops& of_golden, Blocks& blocks) {
  const auto is_rest = [](const Ops& of, const auto& taken, const auto& taken_there, std::uint32_t op) {
    return !taken.contains(op) && (of[op] == kNoOp || taken_there.contains(of[op]));
  };
  for (const auto& [place, ops] : mine.at) {
    const auto there = theirs.at.find(place);
    if (there == theirs.at.end()) continue;
    for (const std::uint32_t t : ops) {
      if (!is_rest(of_target, blocks.target, blocks.golden, t) || !mine.computes(t)) continue;
      const auto found = std::ranges::find_if(there->second, [&](std::uint32_t g) {
        return is_rest(of_golden, blocks.golden, blocks.target, g) && theirs.computes(g) &&
               OpFamilies::same(*mine.side.ops[t].family, *theirs.side.ops[g].family) &&
               gives_shape_of(theirs.side, g, mine.side.ops[t]);
      });
      if (found != there->second.end()) blocks.add({{t}, {*found}});
    }
  }
}

}  // namespace

std::vector<OpBlock> find_blocks(const CompareSide& target, const CompareSide& golden,
                                 const std::vector<OpMatch>& matches, const SameValues& same_result) {
  Ops of_target(target.ops.size(), kNoOp), of_golden(golden.ops.size(), kNoOp);
  for (std::uint32_t t = 0; t < matches.size(); ++t) {
    of_target[t] = matches[t].golden;
    if (matches[t].golden != kNoOp) of_golden[matches[t].golden] = t;
  }
  if (!has_lone(target, golden, of_target) || !has_lone(golden, target, of_golden)) return {};
  Lines mine(target), theirs(golden);
  note_lone(mine, theirs, of_target);
  note_lone(theirs, mine, of_golden);
  Blocks blocks;
  for (std::uint32_t g = 0; g < golden.ops.size(); ++g) {
    if (!theirs.lone[g] || !theirs.computes(g)) continue;
    Ops parts = parts_of(theirs, g, mine, of_target, same_result);
    if (!parts.empty()) blocks.add({std::move(parts), {g}});
  }
  for (std::uint32_t t = 0; t < target.ops.size(); ++t) {
    if (!mine.lone[t] || !mine.computes(t)) continue;
    Ops parts = parts_of(mine, t, theirs, of_golden,
                         [&](const CatalogTensor& a, const CatalogTensor& b) { return same_result(b, a); });
    if (!parts.empty()) blocks.add({{t}, std::move(parts)});
  }
  pair_rests(mine, theirs, of_target, of_golden, blocks);
  return std::move(blocks.all);
}

}  // namespace sonde
