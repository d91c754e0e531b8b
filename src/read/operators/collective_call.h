// CollectiveCall: what a call of a collective says about its group, for matching the calls of the ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

enum class CollectiveWay : std::uint8_t { all, send, receive };
CollectiveWay collective_way(std::string_view plain);  // of bare_type()

// As the host writes the type: a collective that gives ranks what others have, and computes nothing: `alltoall_base_`. Not a
// send or a receive.
bool moves_between_ranks(std::string_view op_type);

struct CollectiveCall {
  const CatalogOp* op = nullptr;
  std::string type;  // bare_type()
  CollectiveWay way = CollectiveWay::all;
  std::string group;                 // its name, with its ranks where the dump has them; empty: unknown
  std::vector<std::int64_t> ranks;   // of the group, by their numbers in it; empty: unknown
  std::optional<std::int64_t> peer;  // of a send or receive: the number of the other rank; empty: any
  std::int64_t tag = 0;
  std::uint64_t number = 0;                  // among the calls of the group, from 1; 0: unknown
  std::string caller;                        // "DDP bucket 0: fc2.weight, fc2.bias"; empty: the program's own line
  std::string reduce;                        // "SUM"; empty: unknown
  std::optional<std::int64_t> root;          // as the call has it
  const CatalogTensor* first_in = nullptr;   // null: none
  const CatalogTensor* first_out = nullptr;  // null: none
  bool complete = false;                     // it has a result
  bool has_one_size = true;                  // every rank gives and gets as much as the others
};

// The caller of a collective, an attribute of the operator; empty: the program's own line.
std::string caller_of(const CatalogOp& op);
// " (DDP bucket 0: fc2.weight)", of many parameters the first; empty if `caller` is.
std::string in_brackets(const std::string& caller);

// Those of one rank's step, in order. Not `wait_tensor`, which only waits for one.
std::vector<CollectiveCall> collective_calls(const CatalogStep& step);

// Calls of two ranks with equal texts meet, in their order: "allreduce of group 0", "0 to 1 by group 0, tag 3". `rank`: the
// one that calls.
std::string meeting_of(const CollectiveCall& call, std::uint32_t rank);

// The one of another rank's calls that meets `call`, which is one of ours, all of a step at one meeting place; null: none
// does. By their numbers, or by their order where one has none.
const CollectiveCall* counterpart_of(const CollectiveCall& call, const std::vector<const CollectiveCall*>& ours,
                                     const std::vector<const CollectiveCall*>& theirs);

// The recordings of two ranks begin at different calls: so many of the first `ours` come before the first of `theirs`
// (negative: the other way round). `agree`: whether two calls may be the same one.
std::ptrdiff_t shift_between(std::size_t ours, std::size_t theirs,
                             const std::function<bool(std::size_t our, std::size_t their)>& agree);

}  // namespace sonde
