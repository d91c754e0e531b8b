#include "ask/relations/relation.h"

#include <fmt/format.h>

namespace sonde {
namespace {

std::string indices_text(std::int64_t start, std::int64_t step, std::int64_t count) {
  if (count == 1) return fmt::format("{}", start);
  if (step == 0) return fmt::format("{} ({} times)", start, count);
  return fmt::format("{} to {}{}", start, start + step * (count - 1),
                     step == 1 ? "" : fmt::format(" in steps of {}", step));
}

std::string part_text(const RelationPart& part, const Pool& golden) {
  const std::string name(golden.name_of(part.golden));
  if (part.axis < 0) return name;
  const std::int64_t size = size_along(golden.tensors[part.golden].shape, part.axis);
  if (part.start == 0 && part.step == 1 && part.count == size) return name;
  if (part.axis == kAxisOfRows)
    return fmt::format("rows {} of {}", indices_text(part.start, part.step, part.count), name);
  return fmt::format("{} of axis {} of {}", indices_text(part.start, part.step, part.count), part.axis, name);
}

// Of whole tensors, in an order that statistics do not show.
std::string whole_text(const Relation& relation, const Pool& golden) {
  const std::vector<RelationPart>& parts = relation.parts;
  if (parts.size() > 1 && parts[0].golden == parts[1].golden)
    return fmt::format("golden {}, {} times", part_text(parts[0], golden), parts.size());
  std::string text = "golden ";
  for (std::size_t i = 0; i < parts.size(); ++i) {
    text += (i == 0 ? "" : i + 1 < parts.size() ? ", " : " and ") + part_text(parts[i], golden);
  }
  return text + " joined";
}

}  // namespace

std::int64_t size_along(const std::vector<std::int64_t>& shape, std::int32_t axis) {
  if (axis != kAxisOfRows) return shape[static_cast<std::size_t>(axis)];
  std::int64_t rows = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) rows *= shape[i];
  return rows;
}

std::string relation_text(const Relation& relation, const Pool& golden) {
  if (!relation) return "corresponds to nothing";
  const RelationPart& first = relation.parts.front();
  switch (relation.kind) {
    case RelationKind::same:
      return "golden " + part_text(first, golden);
    case RelationKind::permuted:
      return fmt::format("golden {} with its axes in another order", part_text(first, golden));
    case RelationKind::cut:
      if (relation.is_of_sums) return "a part of golden " + part_text(first, golden);
      return "golden " + part_text(first, golden);
    case RelationKind::sum:
      return fmt::format("the sum of golden {} and {}{}", part_text(first, golden),
                         part_text(relation.parts[1], golden),
                         relation.order.empty() ? "" : ", its parts in another order");
    case RelationKind::constant:
      return "one number, as in the golden run";
    default:
      break;
  }
  constexpr std::size_t kMost = 8;
  if (relation.is_of_sums) return whole_text(relation, golden);
  std::string text;
  for (std::size_t i = 0; i < relation.parts.size() && i < kMost; ++i) {
    const RelationPart& part = relation.parts[i];
    text += fmt::format("{}{} of axis {} = {}", i > 0 ? ", " : "", indices_text(part.at, 1, part.count), relation.axis,
                        part_text(part, golden));
  }
  if (relation.parts.size() > kMost) text += fmt::format(" and {} parts more", relation.parts.size() - kMost);
  return text;
}

}  // namespace sonde
