// SiteTable: the places of the host's program that run operators, and the set_dump() flags of each.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dump/journal/record.h"

namespace sonde {

// Knowledge about the program itself: it is kept when the records so far are forgotten. Not synchronised: the session
// calls it under its lock.
class SiteTable {
 public:
  // The number of this place, from 1; equal places have equal numbers. `site.id` is ignored.
  std::uint32_t intern(Site site);
  // An empty site for an unknown number.
  const Site& at(std::uint32_t id) const;
  std::size_t size() const { return sites_.size(); }

  // set_dump() of an operator type: ATen's name, MindSpore's or GE's, case-insensitive.
  void flag_type(std::string_view type, bool enabled);
  // True if it was called for the site's own operator, the operator that it differentiates, or a scope around it.
  bool is_flagged(const Site& site) const;

  void clear();

 private:
  std::deque<Site> sites_;  // index = id - 1
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> flagged_types_;
};

// "Default/network-Net/log-op0 (train.py:45)"; the name alone if the line is unknown.
std::string place_text(const OpName& op, const Site& site);

}  // namespace sonde
