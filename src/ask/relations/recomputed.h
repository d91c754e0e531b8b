// Computes operators of a pool again from other inputs. An operator is known if what it would give of its recorded inputs
// is what it gave: axes and orders of elements are found that way, and need no attributes.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "ask/relations/known_functions.h"
#include "ask/relations/pool.h"

namespace sonde {

class Recomputed {
 public:
  explicit Recomputed(const Pool& pool) : pool_(pool) {}

  // Null: there are none, or too many elements.
  const Dense* recorded(std::uint32_t tensor);
  const KnownFunction& function_of(std::uint32_t op, std::size_t output);
  DenseInputs inputs_of(std::uint32_t op);  // empty: one is not recorded

 private:
  KnownFunction find(std::uint32_t op, std::size_t output);

  const Pool& pool_;
  std::map<std::uint32_t, std::optional<Dense>> recorded_;
  std::map<std::pair<std::uint32_t, std::size_t>, KnownFunction> functions_;
};

}  // namespace sonde
