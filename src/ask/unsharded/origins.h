// The ops without a counterpart that lead to what a rank reads, where that differs: one of them is to blame.
//
//   const OriginSearch search(step);
//   for (const std::uint32_t op : search.of(rank, read, cause, false).ops) ...
#pragma once

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "ask/unsharded/causes.h"

namespace sonde {

struct Origins {
  std::size_t rank = 0;
  bool guilty_alone = false;  // not those that do what a sharded run needs: then what is behind them
  std::set<std::uint32_t> seen = {};
  std::vector<std::uint32_t> ops = {};  // that read what is right
};

class OriginSearch {
 public:
  explicit OriginSearch(const WholeStep& step) : step_(step) {}

  Origins of(std::size_t rank, const CompareInput& read, const ShardCause& cause, bool guilty_alone) const;
  // The target calls the op more often than the golden run.
  bool is_more_than_golden(std::size_t rank, std::uint32_t op) const;
  bool is_on_all_ranks(std::size_t rank, std::uint32_t op) const;
  // The number of those that the golden run does not have, and that compute.
  std::ptrdiff_t ops_that_compute(const Origins& origins, const ShardCause& cause) const;

 private:
  void add_origins(const CompareInput& input, const ShardCause& cause, Origins& origins) const;
  bool drop_innocent(std::uint32_t maker, const ShardCause& cause, Origins& origins) const;
  bool is_passed(std::uint32_t op, const ShardCause& cause, const Origins& origins) const;
  bool is_right(std::size_t rank, std::uint32_t op, const CompareInput& input, const ShardCause& cause) const;
  bool is_part_of_right(std::size_t rank, const CompareInput& input, const ShardCause& cause) const;

  bool has_alike_elsewhere(std::size_t rank, const CallSite& site) const;

  const WholeStep& step_;
};

}  // namespace sonde
