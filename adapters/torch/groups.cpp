#include "groups.h"

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "hash.h"
#include "program.h"

namespace sonde_torch {
namespace {

// The result of a functional collective: each operator on it waits for it, and then it is the operator that it seems.
constexpr std::string_view kWaiting = "AsyncCollectiveTensor";

// The class of the first argument that wraps other tensors; empty: none does.
std::string_view wrapper_among(c10::ArrayRef<const c10::IValue> values) {
  for (const c10::IValue& value : values) {
    std::string_view found;
    if (value.isTensor() && value.toTensor().defined()) found = wrapper_class(value.toTensor());
    if (value.isList()) found = wrapper_among(value.toListRef());
    if (!found.empty()) return found;
  }
  return {};
}

// `(Shard(1) of (4, 16) on tp=2, from (0, 8); -; Replicate of (8) on tp=2)`: for each argument that is a tensor.
void describe_layouts(c10::ArrayRef<const c10::IValue> values, std::vector<std::string>& out) {
  constexpr std::size_t kMost = 8;  // lists of an optimizer have hundreds
  for (const c10::IValue& value : values) {
    if (out.size() == kMost) return;
    if (value.isTensor() && value.toTensor().defined()) out.push_back(layout_of(value.toTensor()));
    if (value.isList()) describe_layouts(value.toListRef(), out);
  }
}

std::string layouts_among(c10::ArrayRef<const c10::IValue> values) {
  std::vector<std::string> layouts;
  describe_layouts(values, layouts);
  if (std::ranges::all_of(layouts, [](const std::string& one) { return one.empty(); })) return {};
  std::string text;
  for (const std::string& one : layouts) text += (text.empty() ? "(" : "; ") + (one.empty() ? "-" : one);
  return text + ")";
}

// The outermost operator on wrappers: the others that it calls belong to its group.
Place begin_group(ThreadState& state, Frame& frame, const at::RecordFunction& fn,
                  c10::ArrayRef<const c10::IValue> values, std::string_view wrapper) {
  const OpInfo& info = *frame.info;
  constexpr std::uint64_t kApart = 0x3001;  // its place is made here, so that `made` has the text
  const Place place = place_of(state, fn, info.op_type.c_str(), mix(kApart, info.number));
  if (!state.groups.contains(place.site)) state.groups[place.site] = state.made;
  frame.group = place.site;
  frame.layouts = layouts_among(values);
  if (wrapper != kWaiting) frame.group_scope = info.op_type + "-" + std::string(wrapper);
  return place;
}

// Of an operator that a group calls: the group's line and modules, in a scope of its own.
std::uint32_t site_within(ThreadState& state, const Frame& group, const OpInfo& info) {
  const std::uint64_t key =
      mix(mix(mix(0x3002, info.number), group.group), std::hash<std::string>{}(group.group_scope));
  if (const std::uint32_t known = state.sites.find(key); known != 0) return known;
  const auto known_group = state.groups.find(group.group);
  if (known_group == state.groups.end()) return group.group;  // the modules have changed meanwhile
  SitePlace place = known_group->second;
  if (!group.group_scope.empty()) place.text.scope += (place.text.scope.empty() ? "" : "/") + group.group_scope;
  const std::uint32_t site = intern(info.op_type.c_str(), place.phase, place.forward_site, place.text, place.flagged);
  state.sites.add(key, site);
  return site;
}

}  // namespace

Place place_in_group(ThreadState& state, Frame& frame, const at::RecordFunction& fn,
                     c10::ArrayRef<const c10::IValue> values) {
  const std::string_view wrapper = wrapper_among(values);
  if (state.frames.empty() || state.frames.back().kind != FrameKind::op) {
    if (!wrapper.empty()) return begin_group(state, frame, fn, values, wrapper);
    return place_of(state, fn, frame.info->op_type.c_str(), frame.info->number);
  }
  const Frame& around = state.frames.back();
  frame.layouts = around.layouts;
  if (!wrapper.empty()) {
    frame.group = around.group;
    frame.group_scope = around.group_scope;
  }
  return {site_within(state, around, *frame.info), around.graph};
}

}  // namespace sonde_torch
