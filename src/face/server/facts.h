// Facts: the state of every tensor and op of a dump, in a few bytes each: maps and tables of a million rows need them.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "contract/served_answers.h"
#include "plan/config/plan.h"
#include "read/catalog/catalog.h"
#include "read/index/sqlite.h"
#include "read/measure/health.h"
#include "sonde/result.h"

namespace sonde::server {

inline std::uint64_t tensor_key(std::uint64_t op, std::uint64_t position) { return op << 20U | position; }

// The answers of jobs, which a dump alone does not have.
struct Judgement {
  using Place = std::tuple<std::string, std::uint32_t, std::string, bool, std::uint32_t>;  // rank, graph, name … slot
  struct InSteps {
    StepSet steps;
    State state;
  };
  std::map<Place, std::vector<InSteps>> infinities;             // those that first-bad named
  std::unordered_map<std::uint64_t, KnownStatistics> measured;  // by tensor_key

  // Those of the dump, or else those that were measured.
  KnownStatistics statistics_of(std::uint64_t op, std::uint64_t position,
                                const std::optional<KnownStatistics>& in_dump) const {
    if (in_dump) return *in_dump;
    const auto found = measured.find(tensor_key(op, position));
    return found == measured.end() ? KnownStatistics() : found->second;
  }
};

struct OpFact {
  std::uint32_t step = 0, name = 0;  // `steps.id`, `op_names.id`
  std::uint32_t source_file = 0;     // `texts.id` + 1; 0: unknown
  std::uint32_t line = 0;
  std::uint64_t first_tensor = 0;  // in Facts::tensors; its tensors end where those of the next op begin
  std::uint32_t recorded = 0, nan_tensors = 0, inf_tensors = 0, not_measured = 0;
  std::uint8_t phase = 0, flags = 0;  // index_schema.h
  State state = State::not_recorded;  // of what it made, and what it read from outside
};

struct TensorFact {
  std::uint32_t op = 0;
  std::uint16_t position = 0;
  bool is_input = false;
  State state = State::not_recorded;
};

// A step by its id in the index, which is its place in the vector.
struct StepPlaceFact {
  std::uint32_t rank = 0;  // index in the catalog
  std::uint32_t step = 0;  // index in its steps
  std::uint32_t graph = 0;
  std::uint64_t number = 0;
};

struct OpName {
  std::string op_name, op_type, scope;
};

class Facts : public std::enable_shared_from_this<Facts> {
 public:
  // `earlier`: of the same tables before they grew, where the ops with smaller ids than `first_new` are the same. Null:
  // there is none.
  static Result<std::shared_ptr<const Facts>> read(Database& database, const Catalog& frame, const Judgement& judgement,
                                                   const Facts* earlier = nullptr, std::uint64_t first_new = 0);

  // The ids of the ops with this name, in the order of the run. The first call makes a table of all names.
  std::span<const std::uint32_t> ops_named(std::string_view name) const;

  // Those that a first-bad job judges.
  bool has_infinities() const;

  std::vector<StepPlaceFact> steps;  // by `steps.id`
  std::vector<OpName> names;         // by `op_names.id`
  std::vector<OpFact> ops;           // by `ops.id`
  std::vector<TensorFact> tensors;   // in the order of the run

 private:
  struct ByName {
    std::unordered_map<std::string_view, std::uint32_t> numbers;  // of `names`; several may have one text
    std::vector<std::uint32_t> begin;                             // in `ops`, by number; one more for the end
    std::vector<std::uint32_t> ops;
  };
  ByName by_name() const;

  mutable std::once_flag by_name_once_;
  mutable ByName by_name_;
};

// The state that health alone gives.
State state_of(const CatalogTensor& tensor);

}  // namespace sonde::server
