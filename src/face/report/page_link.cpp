#include "face/report/page_link.h"

#include <fmt/format.h>

namespace sonde {
namespace {

// Slashes, colons, commas and @ stay readable; a fragment may contain them.
std::string escaped_for_link(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                          std::string_view("-_.!~*'()/:,@").find(c) != std::string_view::npos;
    out += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

std::string page_link(const PagePlace& place) {
  std::string link = "#/op?";
  if (place.in_golden) link += "d=1&";
  // Without them the page would show those of the finding.
  if (!place.rank.empty()) link += fmt::format("r={}&", escaped_for_link(place.rank));
  link += fmt::format("g={}&s={}&op={}", place.step.graph, place.step.number, escaped_for_link(place.op_name));
  if (place.slot) link += fmt::format("&t={}{}", place.is_input ? 'i' : 'o', *place.slot);
  return link;
}

std::string link_text(const PagePlace& place) {
  return fmt::format("page: {} after the address that `sonde serve` prints\n", page_link(place));
}

}  // namespace sonde
