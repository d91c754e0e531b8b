// The layouts that are written, by name.
#include <algorithm>
#include <array>

#include "sonde/plan.h"

namespace sonde {
namespace {

struct VersionInfo {
  LayoutVersion version;
  std::string_view layout;
};

constexpr std::array kVersions = {
    VersionInfo{LayoutVersion::mindspore_2_0, "mindspore-2.0"},
    VersionInfo{LayoutVersion::mindspore_2_3, "mindspore-2.3"},
    VersionInfo{LayoutVersion::mindspore_2_5, "mindspore-2.5"},
    VersionInfo{LayoutVersion::mindspore_2_7, "mindspore-2.7"},
};

}  // namespace

std::optional<LayoutVersion> layout_version(std::string_view layout) {
  const auto found = std::ranges::find(kVersions, layout, &VersionInfo::layout);
  if (found == kVersions.end()) return std::nullopt;
  return found->version;
}

}  // namespace sonde
