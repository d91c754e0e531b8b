#include "face/report/page_link.h"

#include <fmt/format.h>

#include "face/report/text.h"

namespace sonde {
namespace {

constexpr std::string_view kReadable = "/:,@";  // a fragment may contain them

}  // namespace

std::string page_link(const PagePlace& place) {
  std::string link = "#/op?";
  if (place.in_golden) link += "d=1&";
  // Without them the page would show those of the finding.
  if (!place.rank.empty()) link += fmt::format("r={}&", percent_encoded(place.rank, kReadable));
  link +=
      fmt::format("g={}&s={}&op={}", place.step.graph, place.step.number, percent_encoded(place.op_name, kReadable));
  if (place.slot) link += fmt::format("&t={}{}", place.is_input ? 'i' : 'o', *place.slot);
  return link;
}

std::string link_text(const PagePlace& place) {
  return fmt::format("page: {} after the address that `sonde serve` prints\n", page_link(place));
}

}  // namespace sonde
