#include "ask/relations/orders_of_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "ask/relations/names_of_weights.h"

namespace sonde {

namespace {

constexpr std::string_view kJoinedOf = "joined of";

// Parts of one axis of one golden weight, each after the one before.
bool are_rising(const std::vector<RelationPart>& parts) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].axis < 0 || parts[i].step < 1) return false;
    if (i == 0) continue;
    const RelationPart &before = parts[i - 1], &own = parts[i];
    if (own.golden != before.golden || own.axis != before.axis || own.at < before.at + before.count) return false;
    if (own.start <= before.start + before.step * (before.count - 1)) return false;
  }
  return true;
}

}  // namespace

bool WeightOrders::is_of_joined(std::string_view key) { return key.starts_with(kJoinedOf); }

std::string_view WeightOrders::golden_name(const RelationPart& part) const {
  return golden_.tensors[part.golden].of.tensor->parameter;
}

std::string WeightOrders::form_of(std::uint32_t weight, bool by_last) const {
  const Relation& found = relation(weight);
  if (!found) return "";
  const auto name_in = [&](const RelationPart& part) {
    return by_last ? std::string(last_names(golden_name(part))) : pattern_of(golden_name(part));
  };
  std::string form = fmt::format("{} {}", static_cast<int>(found.kind), found.axis);
  for (const std::size_t axis : found.order) form += fmt::format(",{}", axis);
  std::vector<std::string> parts;
  for (const RelationPart& part : found.parts) {
    parts.push_back(fmt::format(" {}#{}:{}:{}:{}:{}", name_in(part), rank_among(found, part), part.axis, part.start,
                                part.step, part.count));
  }
  if (found.is_of_sums) std::ranges::sort(parts);  // their order is not known
  for (const std::string& part : parts) form += part;
  return form;
}

// Of golden parts with the same name but for numbers: how many have smaller ones. "w_1" and "w_0" are in another order.
std::size_t WeightOrders::rank_among(const Relation& relation, const RelationPart& part) const {
  const std::string pattern = pattern_of(golden_name(part));
  std::set<std::vector<std::int64_t>> smaller;
  const std::vector<std::int64_t> own = numbers_of(golden_name(part));
  for (const RelationPart& other : relation.parts) {
    std::vector<std::int64_t> numbers = numbers_of(golden_name(other));
    if (pattern_of(golden_name(other)) == pattern && numbers < own) smaller.insert(std::move(numbers));
  }
  return smaller.size();
}

std::string WeightOrders::key_of(std::string_view name, std::uint32_t weight) const {
  const Relation& found = relation(weight);
  std::string key = name_in_layers(name);
  if (key.find('#') != std::string::npos || found.kind != RelationKind::joined || found.is_of_sums) return key;
  std::set<std::string_view> parts;
  for (const RelationPart& part : found.parts) parts.insert(last_names(golden_name(part)));
  if (parts.size() < 2) return key;
  key = kJoinedOf;
  for (const std::string_view part : parts) key.append(" ").append(part);
  return key;
}

std::string WeightOrders::golden_key_of(std::string_view name, std::uint32_t weight) const {
  const Relation& found = relation(weight);
  if (!found.is_whole() || name_in_layers(name).find('#') != std::string::npos) return "";
  const std::string key = name_in_layers(golden_name(found.parts.front()));
  if (key.find('#') == std::string::npos) return "";
  return fmt::format("golden {} {}", key, target_.tensors[weight].shape.size());
}

std::vector<std::size_t> WeightOrders::turn_of(const Relation& found) {
  if (!found.turns_target) return found.order;
  std::vector<std::size_t> back(found.order.size());
  for (std::size_t i = 0; i < back.size(); ++i) back[found.order[i]] = i;
  return back;
}

bool WeightOrders::exchanges_parts_of_axis(std::uint32_t weight) const {
  const Relation& found = relation(weight);
  if (found.kind != RelationKind::permuted || !found.turns_target) return false;
  const std::vector<std::int64_t>&own = target_.tensors[weight].shape, &theirs = golden_.tensors[found.golden()].shape;
  if (own.size() <= theirs.size() || found.order.size() != own.size()) return false;
  std::size_t axis = 0;
  std::int64_t size = 1;
  for (std::size_t i = 0; i < found.order.size() && axis < theirs.size(); ++i) {
    const bool continues = size > 1;
    if (continues && found.order[i] < found.order[i - 1]) return true;
    size *= own[found.order[i]];
    if (size < theirs[axis]) continue;
    size = 1;
    ++axis;
  }
  return false;
}

bool WeightOrders::is_reordered(std::uint32_t weight) const {
  const Relation& found = relation(weight);
  if (found.kind != RelationKind::joined && found.kind != RelationKind::cut) return false;
  if (std::ranges::any_of(found.parts, [](const RelationPart& part) { return part.step < 0; })) return true;
  if (found.kind == RelationKind::cut) return false;
  const bool is_of_one =
      std::ranges::all_of(found.parts, [&](const RelationPart& part) { return part.golden == found.golden(); });
  return is_of_one ? !is_packed(found) : has_other_numbers(found);
}

std::string WeightOrders::own_order_of(std::uint32_t weight) const {
  if (!is_reordered(weight)) {
    // Of several golden weights, each may be in an order.
    const Relation& found = relation(weight);
    const auto goes_back = [](const RelationPart& a, const RelationPart& b) {
      return a.golden == b.golden && b.start < a.start;
    };
    if (found.kind != RelationKind::joined || found.is_of_sums) return "";
    if (std::ranges::adjacent_find(found.parts, goes_back) == found.parts.end()) return "";
  }
  std::map<std::uint32_t, std::string> orders;  // by golden weight
  for (const RelationPart& part : relation(weight).parts) {
    const auto size = static_cast<double>(size_along(golden_.tensors[part.golden].shape, part.axis));
    orders[part.golden] += fmt::format("{:.6f}:{}:{:.6f} ", static_cast<double>(part.start) / size, part.step,
                                       static_cast<double>(part.count) / size);
  }
  const std::string& first = orders.begin()->second;
  return std::ranges::all_of(orders, [&](const auto& one) { return one.second == first; }) ? first : "";
}

bool WeightOrders::are_roles(const std::vector<std::uint32_t>& weights) const {
  std::vector<std::vector<std::int64_t>> numbers;
  const Relation& first = relation(weights.front());
  for (const std::uint32_t weight : weights) {
    const Relation& found = relation(weight);
    if (!target_.tensors[weight].is_weight() || !found.is_whole()) return false;
    if (found.kind != first.kind || found.order != first.order) return false;
    numbers.push_back(numbers_of(target_.tensors[weight].of.tensor->parameter));
    if (numbers.back().size() != numbers.front().size()) return false;
  }
  for (std::size_t place = 0; place < numbers.front().size(); ++place) {
    std::map<std::int64_t, std::set<std::string>> by_number;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      by_number[numbers[i][place]].insert(form_of(weights[i], false));
    }
    const bool says_it = std::ranges::all_of(by_number, [](const auto& one) { return one.second.size() == 1; });
    if (says_it && by_number.size() < weights.size()) return true;
  }
  return false;
}

// Its parts keep their golden order, and other weights hold what lies between them: one golden weight became several, such
// as the keys' and the values' rows of each head.
bool WeightOrders::is_packed(const Relation& relation) const {
  return are_rising(relation.parts) && all_is_held(relation.parts.front());
}

// Weights of the target together hold all indices of the golden axis.
bool WeightOrders::all_is_held(const RelationPart& part) const {
  const std::int64_t size = size_along(golden_.tensors[part.golden].shape, part.axis);
  std::vector<char> held(static_cast<std::size_t>(std::max<std::int64_t>(size, 0)));
  for (std::uint32_t i = 0; i < target_.tensors.size(); ++i) {
    if (!judgement_.is_weight[i] || relation(i).weak) continue;
    for (const RelationPart& other : relation(i).parts) {
      if (other.golden != part.golden || other.axis != part.axis) continue;
      for (std::int64_t k = 0; k < other.count; ++k) {
        const std::int64_t index = other.start + k * other.step;
        if (index >= 0 && index < size) held[static_cast<std::size_t>(index)] = 1;
      }
    }
  }
  return std::ranges::all_of(held, [](char one) { return one != 0; });
}

bool WeightOrders::has_other_numbers(const Relation& relation) const {
  constexpr std::size_t kFewest = 3;  // two are joined either way
  if (relation.is_of_sums || relation.parts.size() < kFewest) return false;
  const std::string pattern = pattern_of(golden_name(relation.parts.front()));
  std::vector<std::vector<std::int64_t>> numbers;
  for (const RelationPart& part : relation.parts) {
    const bool is_whole = part.axis < 0 || (part.start == 0 && part.step == 1 &&
                                            part.count == size_along(golden_.tensors[part.golden].shape, part.axis));
    if (!is_whole || pattern_of(golden_name(part)) != pattern) return false;
    numbers.push_back(numbers_of(golden_name(part)));
  }
  return !std::ranges::is_sorted(numbers);
}

}  // namespace sonde
