#include "groups.h"

#include <algorithm>
#include <array>
#include <cstddef>
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

// For each argument that is a tensor; null: it is not distributed. Lists of an optimizer have hundreds.
struct Layouts {
  static constexpr std::size_t kMost = 8;
  std::array<const Layout*, kMost> all{};
  std::size_t count = 0;
};

// The local tensors of the arguments, and the layouts of the first ones.
void collect_parts(c10::ArrayRef<const c10::IValue> values, std::vector<LocalPart>& parts, Layouts& layouts) {
  for (const c10::IValue& value : values) {
    if (value.isList()) collect_parts(value.toListRef(), parts, layouts);
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    const LocalPart part = local_part(value.toTensor());
    if (part.tensor != nullptr && part.layout != nullptr) parts.push_back(part);
    if (layouts.count < Layouts::kMost) layouts.all[layouts.count++] = part.layout;
  }
}

// `(Shard(1) of (4, 16) on tp=2, from (0, 8); -; Replicate of (8) on tp=2)`. Empty: no argument is distributed.
std::string text_of_layouts(const Layouts& layouts) {
  if (std::ranges::all_of(layouts.all, [](const Layout* one) { return one == nullptr; })) return {};
  std::string text;
  for (std::size_t i = 0; i < layouts.count; ++i) {
    text += (i == 0 ? "(" : "; ") + (layouts.all[i] != nullptr ? layouts.all[i]->text : "-");
  }
  return text + ")";
}

// The group of an operator in this place with these arguments. Most steps repeat those of the one before.
std::shared_ptr<const Group> group_of(ThreadState& state, const OpInfo& info, const Place& place,
                                      std::string_view wrapper, const Layouts& layouts) {
  constexpr std::size_t kMostKnown = 1 << 14;
  // Site and graph are small numbers: without a hash of one of them, site 4 in graph 1 would be site 5 in graph 0.
  std::uint64_t key = mix(mix(mix(0x3003, place.site), static_cast<std::uint64_t>(place.graph)), hash_of(wrapper));
  for (std::size_t i = 0; i < layouts.count; ++i) key = mix(key, layouts.all[i] != nullptr ? layouts.all[i]->key : 0);
  if (state.known_groups.size() >= kMostKnown) state.known_groups.clear();
  std::shared_ptr<const Group>& known = state.known_groups[key];
  if (known != nullptr) return known;
  Group made;
  made.site = place.site;
  made.graph = place.graph;
  if (wrapper != kWaiting) made.scope = info.op_type + "-" + std::string(wrapper);
  made.layouts = text_of_layouts(layouts);
  made.key = mix(place.site, hash_of(made.scope));
  made.layouts_key = made.layouts.empty() ? 0 : hash_of(made.layouts);
  known = std::make_shared<const Group>(std::move(made));
  return known;
}

// The outermost operator on wrappers: the others that it calls belong to its group.
Place begin_group(ThreadState& state, Frame& frame, const at::RecordFunction& fn,
                  c10::ArrayRef<const c10::IValue> values, std::string_view wrapper) {
  const OpInfo& info = *frame.info;
  constexpr std::uint64_t kApart = 0x3001;  // its place is made here, so that `made` has the text
  const Place place = place_of(state, fn, info.op_type.c_str(), mix(kApart, info.number));
  if (!state.groups.contains(place.site)) state.groups[place.site] = state.made;
  Layouts layouts;
  collect_parts(values, frame.parts, layouts);
  frame.group = group_of(state, info, place, wrapper, layouts);
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

const Layout* placement_in_group(ThreadState& state, const at::TensorBase& tensor) {
  if (state.frames.empty()) return nullptr;
  Frame& around = state.frames.back();
  for (std::size_t i = 0; i < around.parts.size(); ++i) {
    const std::size_t at = (around.next_part + i) % around.parts.size();
    if (around.parts[at].tensor != tensor.unsafeGetTensorImpl()) continue;
    around.next_part = at + 1;
    return around.parts[at].layout;
  }
  return nullptr;
}

Place place_in_group(ThreadState& state, Frame& frame, const at::RecordFunction& fn,
                     c10::ArrayRef<const c10::IValue> values) {
  const std::string_view wrapper = wrapper_among(values);
  if (const Group* around = group_around(state)) {
    if (!wrapper.empty()) {
      Layouts layouts;
      collect_parts(values, frame.parts, layouts);
      frame.group = state.frames.back().group;
    }
    return {site_within(state, *around, *frame.info), around->graph};
  }
  if (!wrapper.empty()) return begin_group(state, frame, fn, values, wrapper);
  return place_of(state, fn, frame.info->op_type.c_str(), frame.info->number);
}

}  // namespace sonde_torch
