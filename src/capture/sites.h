// SiteTable: the places of the host's program that run operators, and which of them set_dump() was called for.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "journal/record.h"

namespace sonde {

// What is known of the program itself: it stays when what was recorded so far is forgotten. Not synchronised: the session
// calls it under its lock.
class SiteTable {
 public:
  // The number of this place, the same for the same place; from 1. `site.id` is not looked at.
  std::uint32_t intern(Site site);
  // An empty site for a number that none has.
  const Site& at(std::uint32_t id) const;
  std::size_t size() const { return sites_.size(); }

  // set_dump() of an operator type: ATen's name, MindSpore's or GE's, in any case.
  void flag_type(std::string_view type, bool enabled);
  // Whether it was called for the site's own operator, for the one that it differentiates, or for what is around it.
  bool is_flagged(const Site& site) const;

  void clear();

 private:
  std::deque<Site> sites_;  // index = id - 1
  std::unordered_map<std::string, std::uint32_t> ids_;
  std::vector<std::string> flagged_types_;
};

// "Default/network-Net/log-op0 (train.py:45)"; the name alone where the line is not known.
std::string place_text(const OpName& op, const Site& site);

}  // namespace sonde
