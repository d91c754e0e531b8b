#include "read/operators/op_attributes.h"

#include <algorithm>

#include "read/operators/op_family.h"
#include "read/operators/op_questions.h"

namespace sonde {

const Attribute* attribute_of(const CatalogOp& op, std::string_view name) {
  if (op.attributes == nullptr) return nullptr;
  const auto found = std::ranges::find(*op.attributes, name, &Attribute::name);
  return found == op.attributes->end() ? nullptr : &*found;
}

std::optional<double> number_in(const CatalogOp& op, std::string_view name) {
  const Attribute* found = attribute_of(op, name);
  if (found == nullptr) return std::nullopt;
  if (!found->reals.empty()) return found->reals[0];
  if (!found->integers.empty()) return static_cast<double>(found->integers[0]);
  return std::nullopt;
}

bool normalises_by_batch(const CatalogOp& op) {
  if (!is_batch_norm(shared_type(op.op_type))) return false;
  const Attribute* training = attribute_of(op, "training");
  if (training == nullptr) training = attribute_of(op, "train");
  return training != nullptr && !training->integers.empty() && training->integers.front() != 0;
}

}  // namespace sonde
