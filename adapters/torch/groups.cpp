#include "groups.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
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
  auto group = std::make_shared<Group>();
  group->site = place.site;
  group->graph = place.graph;
  if (wrapper != kWaiting) group->scope = info.op_type + "-" + std::string(wrapper);
  group->layouts = layouts_among(values);
  group->key = mix(place.site, hash_of(group->scope));
  group->layouts_key = group->layouts.empty() ? 0 : hash_of(group->layouts);
  frame.group = std::move(group);
  return place;
}

// Of an operator that a group calls: the group's line and modules, in a scope of its own.
std::uint32_t site_within(ThreadState& state, const Group& group, const OpInfo& info) {
  const std::uint64_t key = mix(mix(0x3002, info.number), group.key);
  if (const std::uint32_t known = state.sites.find(key); known != 0) return known;
  const auto known_group = state.groups.find(group.site);
  if (known_group == state.groups.end()) return group.site;  // the modules have changed meanwhile
  SitePlace place = known_group->second;
  if (!group.scope.empty()) place.text.scope += (place.text.scope.empty() ? "" : "/") + group.scope;
  const std::uint32_t site = intern(info.op_type.c_str(), place.phase, place.forward_site, place.text, place.flagged);
  state.sites.add(key, site);
  return site;
}

}  // namespace

const Group* group_around(const ThreadState& state) {
  return state.frames.empty() ? nullptr : state.frames.back().group.get();
}

Place place_in_group(ThreadState& state, Frame& frame, const at::RecordFunction& fn,
                     c10::ArrayRef<const c10::IValue> values) {
  const std::string_view wrapper = wrapper_among(values);
  if (const Group* around = group_around(state)) {
    if (!wrapper.empty()) frame.group = state.frames.back().group;
    return {site_within(state, *around, *frame.info), around->graph};
  }
  if (!wrapper.empty()) return begin_group(state, frame, fn, values, wrapper);
  return place_of(state, fn, frame.info->op_type.c_str(), frame.info->number);
}

}  // namespace sonde_torch
