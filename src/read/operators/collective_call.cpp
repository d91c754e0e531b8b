#include "read/operators/collective_call.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <tuple>

#include "ground/model/group_attributes.h"
#include "plan/config/op_types.h"
#include "read/operators/op_attributes.h"
#include "read/operators/op_nature.h"
#include "read/operators/op_work.h"

namespace sonde {
namespace {

constexpr std::string_view kUnnamed = "Object";  // of recordings that do not say which group it is

std::optional<std::int64_t> number_of(const CatalogOp& op, std::string_view name) {
  const Attribute* attribute = attribute_of(op, name);
  if (attribute == nullptr || attribute->kind != AttributeKind::integer) return std::nullopt;
  return attribute->integers.front();
}

std::string text_in(const CatalogOp& op, std::string_view name) {
  const Attribute* attribute = attribute_of(op, name);
  const bool is_text = attribute != nullptr && attribute->kind == AttributeKind::text;
  return is_text && attribute->text != kUnnamed ? attribute->text : "";
}

bool has_one_size(std::string_view plain) {
  static const TypeNames kOwnSizes =
      type_names("alltoall alltoallbase alltoallsingle alltoallv allgather gather scatter barrier");
  return !kOwnSizes.contains(plain) && !plain.ends_with("coalesced");
}

// Calls have the number within the group.
std::optional<std::int64_t> peer_of(const CollectiveCall& call) {
  const std::optional<std::int64_t> place = number_of(*call.op, call.way == CollectiveWay::send ? "dst" : "src");
  if (!place || call.ranks.empty()) return place;
  const bool is_member = *place >= 0 && *place < static_cast<std::int64_t>(call.ranks.size());
  return is_member ? std::optional(call.ranks[static_cast<std::size_t>(*place)]) : std::nullopt;
}

bool are_numbered(const std::vector<const CollectiveCall*>& calls) {
  return std::ranges::all_of(calls, [](const CollectiveCall* call) { return call->number != 0; });
}

CollectiveCall call_of(const CatalogOp& op) {
  CollectiveCall call;
  call.op = &op;
  call.type = bare_type(op.op_type);
  call.way = collective_way(call.type);
  call.has_one_size = has_one_size(call.type);
  if (const Attribute* ranks = attribute_of(op, kGroupRanks)) call.ranks = ranks->integers;
  for (const std::string_view name : kGroupNames) call.group += text_in(op, name);
  if (!call.ranks.empty()) call.group += fmt::format(" (ranks {})", fmt::join(call.ranks, ", "));
  if (call.way != CollectiveWay::all) call.peer = peer_of(call);
  call.tag = number_of(op, "tag").value_or(0);
  call.number = op.call_number;
  call.caller = caller_of(op);
  call.reduce = text_in(op, "reduce_op");
  call.root = number_of(op, "root_rank");
  for (const CatalogTensor& tensor : op.tensors) {
    const CatalogTensor*& first = tensor.is_input ? call.first_in : call.first_out;
    if (first == nullptr) first = &tensor;
    call.complete = call.complete || (!tensor.is_input && tensor.recorded());
  }
  return call;
}

}  // namespace

std::string caller_of(const CatalogOp& op) { return text_in(op, kCalledBy); }

std::string in_brackets(const std::string& caller) {
  constexpr std::size_t kLongest = 80;
  if (caller.empty()) return "";
  const std::size_t end = caller.size() > kLongest ? caller.rfind(", ", kLongest) : std::string::npos;
  return end == std::string::npos ? " (" + caller + ")" : " (" + caller.substr(0, end) + ", …)";
}

CollectiveWay collective_way(std::string_view plain) {
  if (plain == "send" || plain == "isend") return CollectiveWay::send;
  const bool receives = plain == "recv" || plain == "irecv" || plain == "recvanysource";
  return receives ? CollectiveWay::receive : CollectiveWay::all;
}

bool moves_between_ranks(std::string_view op_type) {
  static const TypeNames kMoves = type_names(
      "alltoall alltoallbase alltoallsingle allgather allgatherbase allgathercoalesced allgatherintotensor "
      "allgatherintotensorcoalesced allgatherintotensorout broadcast gather");
  return is_collective(op_type) && kMoves.contains(bare_type(op_type));
}

std::vector<CollectiveCall> collective_calls(const CatalogStep& step) {
  std::vector<CollectiveCall> calls;
  for (const CatalogOp& op : step.ops) {
    if (op.is_parameter || !nature_of(op).collective || bare_type(op.op_type) == "waittensor") continue;
    calls.push_back(call_of(op));
  }
  return calls;
}

std::string meeting_of(const CollectiveCall& call, std::uint32_t rank) {
  if (call.way == CollectiveWay::all) return fmt::format("{} of group {}", call.type, call.group);
  const std::string peer = call.peer ? std::to_string(*call.peer) : "any";
  const std::string own = std::to_string(rank);
  const bool sends = call.way == CollectiveWay::send;
  return fmt::format("{} to {} by group {}, tag {}", sends ? own : peer, sends ? peer : own, call.group, call.tag);
}

const CollectiveCall* counterpart_of(const CollectiveCall& call, const std::vector<const CollectiveCall*>& ours,
                                     const std::vector<const CollectiveCall*>& theirs) {
  if (are_numbered(ours) && are_numbered(theirs)) {
    const auto found = std::ranges::find(theirs, call.number, &CollectiveCall::number);
    return found == theirs.end() ? nullptr : *found;
  }
  const auto place = static_cast<std::size_t>(std::ranges::find(ours, call.op, &CollectiveCall::op) - ours.begin());
  return place < theirs.size() ? theirs[place] : nullptr;
}

std::ptrdiff_t shift_between(std::size_t ours, std::size_t theirs,
                             const std::function<bool(std::size_t our, std::size_t their)>& agree) {
  constexpr std::ptrdiff_t kLargest = 64;
  constexpr std::ptrdiff_t kCost = 2;  // of a call that meets none: more than of two that do not agree
  const auto score = [&](std::ptrdiff_t shift) {
    std::ptrdiff_t sum = 0, met = 0;
    for (std::size_t our = 0; our < ours; ++our) {
      const std::ptrdiff_t their = static_cast<std::ptrdiff_t>(our) - shift;
      if (their < 0 || their >= static_cast<std::ptrdiff_t>(theirs)) continue;
      sum += agree(our, static_cast<std::size_t>(their)) ? 1 : -1;
      ++met;
    }
    return sum - kCost * (static_cast<std::ptrdiff_t>(ours + theirs) - 2 * met);
  };
  std::ptrdiff_t best = 0, most = score(0);
  for (std::ptrdiff_t size = 1; size <= kLargest; ++size) {
    for (const std::ptrdiff_t shift : {size, -size}) {
      const std::ptrdiff_t found = score(shift);
      if (found > most) std::tie(best, most) = std::tuple(shift, found);
    }
  }
  return best;
}

}  // namespace sonde
