#include "ops.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <string_view>
#include <unordered_map>

#include "leaked.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

// Ops that write arguments without a mark in their schema: the running statistics of the normalisations.
struct HiddenWrite {
  std::string_view name;
  std::array<int, 2> arguments;
};
constexpr HiddenWrite kHiddenWrites[] = {
    {"aten::batch_norm", {3, 4}},
    {"aten::native_batch_norm", {3, 4}},
    {"aten::instance_norm", {3, 4}},
    {"aten::_batch_norm_impl_index", {3, 4}},
    {"aten::cudnn_batch_norm", {3, 4}},
    {"aten::miopen_batch_norm", {3, 4}},
    {"aten::batch_norm_update_stats", {1, 2}},
};

// Arguments that an op fills without having read them, although its schema does not say so: those of c10d's collectives
// (all that are named output…, too), and one of FSDP2's.
struct OnlyWritten {
  std::string_view name, argument;
};
constexpr OnlyWritten kOnlyWritten[] = {
    {"c10d::recv_", "tensors"},
    {"c10d::recv_any_source_", "tensors"},
    {"fsdp::all_gather_copy_in", "all_gather_output"},
};

// Collectives that give each rank of their group the same. Others give some ranks nothing, or each rank its own.
constexpr std::string_view kEqualOnAll[] = {
    "c10d::allreduce_",
    "c10d::allreduce_coalesced_",
    "c10d::allgather_",
    "c10d::_allgather_base_",
    "c10d::allgather_coalesced_",
    "c10d::allgather_into_tensor_coalesced_",
    "c10d::broadcast_",
    "_c10d_functional::all_reduce",
    "_c10d_functional::all_reduce_",
    "_c10d_functional::all_reduce_coalesced",
    "_c10d_functional::all_reduce_coalesced_",
    "_c10d_functional::all_gather_into_tensor",
    "_c10d_functional::all_gather_into_tensor_out",
    "_c10d_functional::all_gather_into_tensor_coalesced",
    "_c10d_functional::broadcast",
    "_c10d_functional::broadcast_",
};

bool starts_with(std::string_view text, std::string_view prefix) { return text.substr(0, prefix.size()) == prefix; }

ArgumentKind kind_of(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return kind_of(*optional->getElementType());
  if (type.kind() == c10::TypeKind::TensorType) return ArgumentKind::tensor;
  if (const auto* list = type.castRaw<c10::ListType>()) {
    return kind_of(*list->getElementType()) == ArgumentKind::other ? ArgumentKind::other : ArgumentKind::tensor_list;
  }
  return ArgumentKind::other;
}

ArgumentForm form_of(const c10::Type& type) {
  if (const auto* optional = type.castRaw<c10::OptionalType>()) return form_of(*optional->getElementType());
  switch (type.kind()) {
    case c10::TypeKind::ScalarTypeType:
      return ArgumentForm::dtype;
    case c10::TypeKind::LayoutType:
      return ArgumentForm::layout;
    case c10::TypeKind::MemoryFormatType:
      return ArgumentForm::memory_format;
    default:
      return ArgumentForm::plain;
  }
}

// `out=` of PyTorch's own ops may have any name (`max`, `max_values`); other libraries write a state in place, too.
bool is_only_written(std::string_view name, const c10::Argument& argument) {
  if (argument.is_out() && argument.alias_info()->isWrite())
    return starts_with(name, "aten::") || starts_with(argument.name(), "out");
  if (starts_with(name, "c10d::") && starts_with(argument.name(), "output")) return true;
  return std::ranges::any_of(
      kOnlyWritten, [&](const OnlyWritten& known) { return known.name == name && known.argument == argument.name(); });
}

OpInfo* make(const c10::FunctionSchema& schema) {
  auto* info = new OpInfo;  // lives as long as the process, like the dispatcher's table
  info->name = schema.name();
  info->overload = schema.overload_name();
  const std::size_t colon = info->name.rfind(':');
  info->op_type = colon == std::string::npos ? info->name : info->name.substr(colon + 1);
  // Collectives write without a mark in their schema, and continue after they return.
  info->collective = starts_with(info->name, "c10d::");
  info->waits = info->name == "_c10d_functional::wait_tensor";
  info->unfinished = starts_with(info->name, "_c10d_functional") && !info->waits;
  info->equal_on_all = std::ranges::find(kEqualOnAll, std::string_view(info->name)) != std::end(kEqualOnAll);
  info->barrier = info->collective && info->name.find("barrier") != std::string::npos;
  for (const c10::Argument& argument : schema.arguments()) {
    ArgumentInfo entry;
    entry.name = argument.name();
    entry.kind = kind_of(*argument.type());
    entry.form = form_of(*argument.real_type());
    if (entry.kind == ArgumentKind::other) info->has_attributes = true;
    const bool marked = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    // A backend may use its input as scratch memory; only the input of a send is safe.
    entry.written = entry.kind != ArgumentKind::other && (marked || (info->collective && info->name != "c10d::send"));
    entry.only_written = entry.kind != ArgumentKind::other && is_only_written(info->name, argument);
    entry.result = info->collective && !info->barrier && entry.written && !starts_with(argument.name(), "input");
    entry.awaited = info->waits && entry.kind == ArgumentKind::tensor;
    if (entry.name == "non_blocking") info->non_blocking = static_cast<int>(info->arguments.size());
    info->arguments.push_back(entry);
  }
  info->schema_says_all = starts_with(info->name, "aten::");
  for (const HiddenWrite& hidden : kHiddenWrites) {
    if (hidden.name != info->name) continue;
    info->schema_says_all = false;
    for (const int i : hidden.arguments) {
      if (static_cast<std::size_t>(i) < info->arguments.size()) info->arguments[i].written = true;
    }
  }
  info->writes =
      std::any_of(info->arguments.begin(), info->arguments.end(), [](const ArgumentInfo& a) { return a.written; });
  info->returns_nothing = schema.returns().empty();
  const std::string_view type = info->op_type;
  info->uninitialised =
      gives_unwritten_memory(type) || starts_with(type, "resize_") || starts_with(type, "_resize_output");
  info->initialises = info->name == "aten::lift_fresh" || info->name == "aten::lift";
  info->ignored = starts_with(info->name, "profiler::") || starts_with(info->name, "prim::") ||
                  info->op_type == "_wrap_tensor_autograd";  // a handle for what a collective has not completed
  if (const auto handle = c10::Dispatcher::singleton().findSchema({info->name, info->overload})) {
    for (const c10::DispatchKey key : c10::autocast_dispatch_keyset) {
      if (handle->hasKernelForDispatchKey(key)) info->autocast = info->autocast.add(key);
    }
  }
  static std::atomic<std::uint32_t> next{1};
  info->number = next.fetch_add(1);
  return info;
}

using KnownOps = Synchronized<std::unordered_map<std::string, OpInfo*>>;

// One OpInfo per schema for the process; each thread keeps its own table of name addresses.
const OpInfo* intern(const c10::FunctionSchema& schema) {
  const auto known = table_of_process<KnownOps>().lock();
  OpInfo*& info = (*known)[schema.name() + "." + schema.overload_name()];
  if (info == nullptr) info = make(schema);
  return info;
}

}  // namespace

bool gives_unwritten_memory(std::string_view type) {
  return starts_with(type, "empty") || starts_with(type, "new_empty");
}

const OpInfo* op_info(const at::RecordFunction& fn) {
  // name() points into the operator's schema, which is never freed: its address is the key. A string-named event points
  // into the event itself; it may repeat an address, but never that of a living schema.
  struct Known {
    const char* name = nullptr;
    const OpInfo* info = nullptr;
  };
  // One look-up reads one line of the cache, as a rule. If the places of four names are taken, the first one makes room.
  constexpr std::size_t kKnown = 2048, kTried = 4;
  thread_local std::vector<Known> known(kKnown);
  const char* name = fn.name();
  const std::size_t home = (reinterpret_cast<std::uintptr_t>(name) * 0x9E3779B97F4A7C15ULL) >> 53;
  Known* place = &known[home];
  for (std::size_t i = 0; i < kTried; ++i) {
    Known& entry = known[(home + i) % kKnown];
    // A library of operators may be unloaded, and another take its place.
    if (entry.name == name && entry.info->name == name) return entry.info;
    if (entry.name != nullptr && entry.name != name) continue;
    place = &entry;
    break;
  }
  const auto schema = fn.operator_schema();
  if (!schema.has_value()) return nullptr;
  *place = {name, intern(*schema)};
  return place->info;
}

}  // namespace sonde_torch
