// Ask: one request about one dump, and the functions that answer it. api.cpp calls them by the path.
#pragma once

#include <memory>

#include "face/server/answer_table.h"
#include "face/server/message.h"
#include "face/server/parameters.h"
#include "face/server/rows.h"
#include "face/server/served_dump.h"
#include "face/server/snapshot.h"
#include "ground/contract/json.h"
#include "read/catalog/catalog.h"

namespace sonde::server {

struct Ask {
  const Request& request;
  Parameters& parameters;
  ServedDump& dump;
  std::shared_ptr<Snapshot> snapshot;

  // With its `generation`.
  template <HasMembers Answer>
  Response answer(Answer answer) const {
    answer.generation = snapshot->generation();
    return json_response(text_of_json(json_of(answer)));
  }
};

// The op that `rank`, `graph`, `step` and `name` mean: the first of several.
struct AskedOp {
  std::shared_ptr<StepPart> part;
  std::size_t rank = 0, step = 0;  // indices in the snapshot's frame
  std::uint64_t op_id = 0;         // in the index
  std::size_t number = 0;          // in the step
  const CatalogOp* op = nullptr;

  const CatalogRank& of_rank() const { return part->rank(); }
};
Result<AskedOp> asked_op(Ask& ask, const Facts& facts);

// Fails if the op has no such input or output.
Result<const CatalogTensor*> tensor_of(const CatalogOp& op, bool is_input, std::uint64_t slot);

// The names of rank, graph, side and class that every answer uses.
State state_of(const Facts& facts, const AskedOp& op, std::size_t tensor);

// Scopes of the health map and the tree: parameters, which have no scope, are in one of their own.
inline constexpr std::string_view kParameterScope = "(parameters)";
std::string_view shown_scope(const Facts& facts, const OpFact& op);

// --- tables.cpp
// The rows that `rank`, `graph`, `step`, `filter` and `sort` mean.
RowQuery asked_rows(Ask& ask, RowsOf of);
Result<Response> ops(Ask& ask);
Result<Response> tensors(Ask& ask);
// --- maps.cpp
Result<Response> health(Ask& ask);
Result<Response> gradients(Ask& ask);
Result<Response> trend(Ask& ask);
// --- curves.cpp
Result<Response> curves(Ask& ask);
// --- overview.cpp
Result<Response> overview(Ask& ask);
Result<Response> scopes(Ask& ask);
Result<Response> search(Ask& ask);
Result<Response> source(Ask& ask);
// --- op_answers.cpp
Result<Response> op(Ask& ask);
Result<Response> graph(Ask& ask);
Result<Response> path(Ask& ask);
// --- tensor_answers.cpp
Result<Response> tensor_statistics(Ask& ask);
Result<Response> tensor_histogram(Ask& ask);
Result<Response> tensor_heat(Ask& ask);
Result<Response> tensor_values(Ask& ask);
Result<Response> tensor_next(Ask& ask);
Result<Response> tensor_file(Ask& ask);

}  // namespace sonde::server
