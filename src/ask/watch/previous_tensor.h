// PreviousTensors: the tensor with the same name in the step before: that of the same run of its op within the step.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ask/watch/watchpoints.h"
#include "read/catalog/run_history.h"

namespace sonde {

struct PreviousTensor {
  std::optional<TensorPlace> place;
  std::optional<std::uint64_t> step;
  bool from_history = true;
};

class PreviousTensors {
 public:
  PreviousTensors(const Catalog& catalog, std::uint32_t rank)
      : rank_(rank), catalog_(catalog.ranks[rank]), history_(catalog_) {}

  PreviousTensor before(const TensorPlace& place);

 private:
  using Names = std::unordered_map<std::string_view, std::vector<std::uint32_t>>;  // ops by name

  const std::vector<std::uint32_t>& runs_of(std::uint32_t step, const CatalogOp& op);

  std::uint32_t rank_;
  const CatalogRank& catalog_;
  RunHistory history_;
  std::map<std::uint32_t, std::array<Names, 2>> steps_;
};

}  // namespace sonde
