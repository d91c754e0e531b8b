// The layouts that are written: their names, and the columns that the older ones prescribe.
#include <algorithm>
#include <array>

#include "sonde/plan.h"

namespace sonde {
namespace {

constexpr std::array kColumnsOf20 = {Category::max,
                                     Category::min,
                                     Category::avg,
                                     Category::count,
                                     Category::negative_zero_count,
                                     Category::positive_zero_count,
                                     Category::nan_count,
                                     Category::negative_inf_count,
                                     Category::positive_inf_count,
                                     Category::zero_count};
constexpr auto kColumnsOf23 = [] {
  std::array<Category, kColumnsOf20.size() + 1> columns{};
  std::ranges::copy(kColumnsOf20, columns.begin());
  columns.back() = Category::md5;
  return columns;
}();

constexpr std::array<LayoutVersionInfo, 4> kVersions = {{
    {LayoutVersion::mindspore_2_0, "mindspore-2.0", "2.0", kColumnsOf20},
    {LayoutVersion::mindspore_2_3, "mindspore-2.3", "2.3", kColumnsOf23},
    {LayoutVersion::mindspore_2_5, "mindspore-2.5", "2.5", {}},
    {LayoutVersion::mindspore_2_7, "mindspore-2.7", "2.7", {}},
}};

std::optional<LayoutVersion> found_by(std::string_view LayoutVersionInfo::*name, std::string_view text) {
  const auto found = std::ranges::find(kVersions, text, name);
  if (found == kVersions.end()) return std::nullopt;
  return found->version;
}

}  // namespace

std::span<const LayoutVersionInfo> layout_versions() { return kVersions; }

const LayoutVersionInfo& info(LayoutVersion version) { return kVersions[static_cast<std::size_t>(version)]; }

std::optional<LayoutVersion> layout_version(std::string_view layout) {
  return found_by(&LayoutVersionInfo::layout, layout);
}

std::optional<LayoutVersion> layout_of_release(std::string_view release) {
  return found_by(&LayoutVersionInfo::release, release);
}

}  // namespace sonde
