// The layouts that are written and the releases they are of: their names, and the columns that the older ones prescribe.
#include <algorithm>
#include <array>

#include "plan/config/plan.h"

namespace sonde {
namespace {

// The categories up to this one.
template <Category last>
constexpr auto kColumnsTo = [] {
  std::array<Category, static_cast<std::size_t>(last) + 1> columns{};
  for (std::size_t i = 0; i < columns.size(); ++i) columns[i] = static_cast<Category>(i);
  return columns;
}();
constexpr auto kColumnsOf20 = kColumnsTo<Category::zero_count>;
constexpr auto kColumnsOf23 = kColumnsTo<Category::md5>;

constexpr std::array<ReleaseInfo, 6> kReleases = {{
    {Release::v1_2, "1.2", kColumnsOf20},
    {Release::v1_3, "1.3", kColumnsOf20},
    {Release::v2_0, "2.0", kColumnsOf20},
    {Release::v2_3, "2.3", kColumnsOf23},
    {Release::v2_5, "2.5", {}},
    {Release::v2_7, "2.7", {}},
}};

using enum LayoutKind;
constexpr std::array<LayoutInfo, 11> kLayouts = {{
    {mindspore_1_2, "mindspore-1.2", Release::v1_2, Release::v1_2, Release::v1_2},
    {mindspore_1_2_async, "mindspore-1.2-async", Release::v1_2, Release::v1_2, Release::v1_2},
    {mindspore_2_0, "mindspore-2.0", Release::v2_0, Release::v1_3, Release::v2_0},
    {mindspore_2_3, "mindspore-2.3", Release::v2_3, Release::v2_3, Release::v2_3},
    {mindspore_2_5, "mindspore-2.5", Release::v2_5, Release::v2_5, Release::v2_5},
    {mindspore_2_7, "mindspore-2.7", Release::v2_7, Release::v2_7, Release::v2_7},
    {ge, "ge", Release::v2_3, Release::v2_3, Release::v2_7},
    {o0, "o0", Release::v2_3, Release::v2_3, Release::v2_5},
    {o2, "o2", Release::v2_5, Release::v2_3, Release::v2_7},
    {acl, "acl", Release::v2_7, Release::v2_7, Release::v2_7},
    {torchair, "torchair", Release::v2_7, Release::v2_7, Release::v2_7},
}};

}  // namespace

std::span<const ReleaseInfo> releases() { return kReleases; }
const ReleaseInfo& info(Release release) { return kReleases[static_cast<std::size_t>(release)]; }

std::optional<Release> release_from_name(std::string_view name) {
  const auto found = std::ranges::find(kReleases, name, &ReleaseInfo::name);
  return found == kReleases.end() ? std::nullopt : std::optional(found->release);
}

std::span<const LayoutInfo> layouts() { return kLayouts; }
const LayoutInfo& info(LayoutKind kind) { return kLayouts[static_cast<std::size_t>(kind)]; }

std::optional<LayoutKind> layout_from_name(std::string_view name) {
  const auto found = std::ranges::find(kLayouts, name, &LayoutInfo::name);
  return found == kLayouts.end() ? std::nullopt : std::optional(found->kind);
}

LayoutKind layout_of(Release release) {
  const auto has = [&](const LayoutInfo& layout) { return layout.oldest <= release && release <= layout.newest; };
  return std::ranges::find_if(kLayouts, has)->kind;
}

}  // namespace sonde
