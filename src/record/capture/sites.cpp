#include "record/capture/sites.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "ground/base/text.h"
#include "plan/config/op_types.h"

namespace sonde {
namespace {

// The text that distinguishes places: a line that several lines call is a place for each.
std::string interning_key(const Site& site) {
  std::string key = fmt::format("{}|{}|{}|{}|{}", static_cast<int>(site.phase), site.op_type, site.scope,
                                site.forward_op_type, site.flagged ? 1 : 0);
  for (const SourceLine& line : site.trace) key += fmt::format("|{}|{}", line.line, line.file);
  return key;
}

}  // namespace

std::uint32_t SiteTable::intern(Site site) {
  // A node that began before this session did may name a site of the last one.
  if (site.forward_site > sites_.size()) site.forward_site = 0;
  if (site.forward_site != 0) {
    const Site& forward = at(site.forward_site);
    site.forward_op_type = forward.op_type;
    site.scope = forward.scope;
    site.flagged = site.flagged || forward.flagged;
    if (site.trace.empty()) site.trace = forward.trace;
  }
  const auto next = static_cast<std::uint32_t>(sites_.size() + 1);
  const auto [known, is_new] = ids_.try_emplace(interning_key(site), next);
  if (is_new) {
    site.id = next;
    sites_.push_back(std::move(site));
  }
  return known->second;
}

const Site& SiteTable::at(std::uint32_t id) const {
  static const Site none;
  return id != 0 && id <= sites_.size() ? sites_[id - 1] : none;
}

void SiteTable::flag_type(std::string_view type, bool enabled) {
  std::erase_if(flagged_types_, [&](const std::string& known) { return same_ignoring_case(known, type); });
  if (enabled) flagged_types_.emplace_back(type);
}

bool SiteTable::is_flagged(const Site& site) const {
  if (site.flagged) return true;
  return std::ranges::any_of(flagged_types_, [&](const std::string& type) {
    const auto is = [&](const std::string& op_type) {
      return !op_type.empty() && (same_ignoring_case(type, op_type) || is_alias(type, op_type));
    };
    return is(site.op_type) || is(site.forward_op_type);
  });
}

std::string place_text(const OpName& op, const Site& site) {
  if (site.trace.empty()) return op.op_name;
  const SourceLine& line = site.trace.front();
  return fmt::format("{} ({}:{})", op.op_name, line.file, line.line);
}

void SiteTable::clear() {
  sites_.clear();
  ids_.clear();
}

}  // namespace sonde
