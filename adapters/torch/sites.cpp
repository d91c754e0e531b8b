#include "sites.h"

#include "setup.h"

namespace sonde_torch {

std::uint32_t intern(const char* op_type, std::uint32_t phase, std::uint32_t forward_site, const SiteText& text,
                     bool flagged) {
  const auto number = [](int n) { return n > 0 ? static_cast<std::uint32_t>(n) : 0; };  // -1: unknown
  std::vector<sonde_source_line> trace;
  for (const SiteLine& line : text.trace) {
    trace.push_back({number(line.line), number(line.column), number(line.end_line), number(line.end_column),
                     line.file.c_str(), line.function.c_str()});
  }
  sonde_site site{};
  site.size = sizeof site;
  site.phase = phase;
  site.forward_site = forward_site;
  site.trace_count = static_cast<std::uint32_t>(trace.size());
  site.op_type = op_type;
  site.scope = text.scope.c_str();
  site.trace = trace.data();
  site.flags = flagged ? SONDE_SITE_FLAGGED : 0;
  return api().site(&site);
}

std::uint32_t KnownSites::find(std::uint64_t key) {
  Entry& recent = recent_[key % kMostRecent];
  if (recent.key == key && recent.site != 0) return recent.site;
  const auto known = all_.find(key);
  if (known == all_.end()) return 0;
  recent = {key, known->second};
  return known->second;
}

void KnownSites::add(std::uint64_t key, std::uint32_t site) {
  if (all_.size() >= kMost) clear();  // code that is made again and again (exec)
  if (site != 0) all_.emplace(key, site);
}

void KnownSites::clear() {
  all_.clear();
  recent_.assign(kMostRecent, {});
}

}  // namespace sonde_torch
