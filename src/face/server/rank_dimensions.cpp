#include "face/server/rank_dimensions.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>

#include "ground/base/parse_number.h"
#include "ground/model/group_attributes.h"
#include "read/index/sqlite.h"

namespace sonde::server {
namespace {

using Numbers = std::vector<std::uint64_t>;

// The numbers of "(16, 8)" or "0,1".
Numbers numbers_of(std::string_view text) {
  Numbers numbers;
  std::string digits;
  for (const char c : std::string(text) + ",") {
    if (c >= '0' && c <= '9') {
      digits += c;
    } else if (!digits.empty()) {
      std::uint64_t number = 0;
      if (parse_digits(digits, number)) numbers.push_back(number);
      digits.clear();
    }
  }
  return numbers;
}

// At `mark`, where it is not inside of brackets.
std::vector<std::string_view> parts_at(std::string_view text, std::string_view mark) {
  std::vector<std::string_view> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth != 0 || !text.substr(i).starts_with(mark)) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + mark.size();
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// The axis that "Shard(0)" divides; empty: another placement.
std::optional<std::uint64_t> axis_of(std::string_view placement) {
  const Numbers numbers = placement.starts_with("Shard(") ? numbers_of(placement) : Numbers();
  return numbers.size() == 1 ? std::optional(numbers[0]) : std::nullopt;
}

// PyTorch gives each rank as many indices as the first one, until there are none.
std::optional<std::uint64_t> place_of(std::uint64_t indices, std::uint64_t size, std::uint64_t from) {
  const std::uint64_t each = size == 0 ? 0 : (indices + size - 1) / size;
  if (each == 0 || from >= indices || from % each != 0) return std::nullopt;
  return from / each;
}

void add(std::vector<RankDimension>& into, RankDimension one) {
  const bool is_new = std::ranges::find(into, one.dimension, &RankDimension::dimension) == into.end();
  if (is_new && one.size > 1) into.push_back(std::move(one));
}

// Of a collective: DDP's has all replicas, a pipeline's the number of the stage.
void add_caller(std::vector<RankDimension>& into, std::string_view caller, std::string_view group, std::uint32_t rank) {
  constexpr std::string_view kStage = "pipeline stage ";
  const Numbers ranks = numbers_of(group);
  const auto own = std::ranges::find(ranks, std::uint64_t{rank});
  if (caller.starts_with("DDP ") && own != ranks.end()) {
    add(into, {"dp", ranks.size(), static_cast<std::uint64_t>(own - ranks.begin())});
  } else if (caller.starts_with(kStage)) {
    const Numbers stage = numbers_of(caller.substr(0, caller.find(',')));
    if (stage.size() == 1 && stage[0] < ranks.size()) add(into, {"pp", ranks.size(), stage[0]});
  }
}

constexpr const char* kPlacements =
    "SELECT DISTINCT steps.rank_id, texts.text FROM steps JOIN tensors ON op_id>=first_op AND op_id<end_op "
    "JOIN texts ON texts.id=placement WHERE steps.id IN (SELECT MIN(id) FROM steps GROUP BY rank_id)";
constexpr const char* kCallers =
    "SELECT DISTINCT steps.rank_id, caller.text, ranks.integers FROM steps "
    "JOIN ops ON ops.id>=first_op AND ops.id<end_op JOIN attributes AS caller ON caller.id=ops.attributes AND "
    "caller.name=?1 JOIN attributes AS ranks ON ranks.id=caller.id AND ranks.name=?2 "
    "WHERE steps.id IN (SELECT MIN(id) FROM steps GROUP BY rank_id)";

}  // namespace

std::vector<RankDimension> dimensions_in(std::string_view placement) {
  const std::size_t of = placement.find(" of ("), on = placement.find(") on ");
  if (of == std::string_view::npos || on == std::string_view::npos || on < of) return {};
  const std::vector<std::string_view> placements = parts_at(placement.substr(0, of), ", ");
  const std::size_t from_at = placement.find(", from (");
  if (from_at == std::string_view::npos) return {};
  const std::vector<std::string_view> mesh = parts_at(placement.substr(on + 5, from_at - on - 5), " × ");
  const Numbers shape = numbers_of(placement.substr(of, on - of)), from = numbers_of(placement.substr(from_at));
  if (mesh.size() != placements.size() || from.size() != shape.size()) return {};
  std::vector<RankDimension> found;
  for (std::size_t i = 0; i < mesh.size(); ++i) {
    const std::optional<std::uint64_t> axis = axis_of(placements[i]);
    // Also "_StridedShard(dim=0, sf=2)".
    const auto divides = [&](std::string_view other) {
      const Numbers numbers = numbers_of(other);
      return !numbers.empty() && numbers[0] == axis;
    };
    if (!axis || *axis >= shape.size() || std::ranges::count_if(placements, divides) > 1) continue;
    const std::size_t equals = mesh[i].rfind('=');
    std::uint64_t size = 0;
    if (equals == std::string_view::npos || !parse_digits(mesh[i].substr(equals + 1), size)) continue;
    const std::optional<std::uint64_t> place = place_of(shape[*axis], size, from[*axis]);
    if (place) add(found, {std::string(mesh[i].substr(0, equals)), size, *place});
  }
  return found;
}

Result<std::vector<std::vector<RankDimension>>> rank_dimensions(Snapshot& snapshot) {
  const std::vector<CatalogRank>& ranks = snapshot.frame().ranks;
  std::vector<std::vector<RankDimension>> all(ranks.size());
  if (ranks.size() < 2) return all;
  const Status read = snapshot.with_database([&](Database& database) -> Status {
    Result<Statement> placements = database.prepare(kPlacements);
    Result<Statement> callers = database.prepare(kCallers);
    if (!placements) return placements.error();
    if (!callers) return callers.error();
    while (placements->next()) {
      const auto rank = static_cast<std::size_t>(placements->integer(0));
      for (RankDimension& one : dimensions_in(placements->text(1))) {
        if (rank < all.size()) add(all[rank], std::move(one));
      }
    }
    callers->set(0, kCalledBy);
    callers->set(1, kGroupRanks);
    while (callers->next()) {
      const auto rank = static_cast<std::size_t>(callers->integer(0));
      if (rank < all.size()) add_caller(all[rank], callers->text(1), callers->text(2), ranks[rank].rank);
    }
    return placements->failed() || callers->failed() ? Status(database.error("cannot read it")) : Status();
  });
  if (!read) return read.error();
  return all;
}

}  // namespace sonde::server
