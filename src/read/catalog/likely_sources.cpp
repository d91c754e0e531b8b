#include "read/catalog/likely_sources.h"

#include <bit>
#include <optional>
#include <string_view>
#include <unordered_map>

namespace sonde {
namespace {

std::uint64_t mixed(std::uint64_t seed, std::uint64_t value) {  // splitmix64
  std::uint64_t x = seed ^ (value + 0x9E3779B97F4A7C15ULL);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

std::uint64_t mixed(std::uint64_t seed, std::string_view text) {
  return mixed(seed, std::hash<std::string_view>()(text));
}

std::uint64_t mixed(std::uint64_t seed, const std::optional<double>& value) {
  if (!value) return mixed(seed, 1);
  return mixed(seed, *value != *value ? 2 : std::bit_cast<std::uint64_t>(*value));  // all NaN are one
}

// A hash of all known facts about a tensor's values; empty if they are too few.
std::optional<std::uint64_t> print_of(const CatalogTensor& tensor) {
  if (!tensor.has_shape) return std::nullopt;
  const KnownStatistics known = tensor.statistics.value_or(KnownStatistics());
  const bool is_constant = known.max && known.min && *known.max == *known.min;
  const bool has_checksum = !tensor.md5.empty() || !tensor.sha1.empty();
  const int values = known.max.has_value() + known.min.has_value() + known.avg.has_value() + known.l2norm.has_value();
  if (is_constant || (!has_checksum && values < 3)) return std::nullopt;
  std::uint64_t print = mixed(0, static_cast<std::uint64_t>(tensor.dtype));
  for (const std::int64_t size : tensor.shape) print = mixed(print, static_cast<std::uint64_t>(size));
  print = mixed(mixed(print, tensor.md5), tensor.sha1);
  for_each_statistic(known, [&]<typename Value>(std::string_view name, const std::optional<Value>& value) {
    if (name == "count") return;  // follows from the shape
    if constexpr (std::is_floating_point_v<Value>) {
      print = mixed(print, value);
    } else {
      print = mixed(print, value.value_or(~0ULL));
    }
  });
  return print;
}

void name_parameters(CatalogStep& step) {
  std::unordered_map<std::string_view, const CatalogOp*> modules;
  for (const CatalogOp& op : step.ops) {
    if (op.is_module && op.phase == Phase::forward) modules.emplace(op.op_name, &op);
  }
  if (modules.empty()) return;
  for (CatalogOp& op : step.ops) {
    const auto module = op.is_module ? modules.end() : modules.find(op.parent);
    if (module == modules.end()) continue;
    for (CatalogTensor& tensor : op.tensors) {
      const std::optional<std::uint64_t> print = print_of(tensor);
      if (!print || !tensor.is_input || tensor.source != kNoSequence || !tensor.parameter.empty()) continue;
      for (const CatalogTensor& other : module->second->tensors) {
        if (other.is_input && !other.parameter.empty() && print_of(other) == print) {
          tensor.parameter = other.parameter;
        }
      }
    }
  }
}

}  // namespace

void add_likely_sources(CatalogStep& step) {
  struct Made {
    std::uint64_t sequence;
    std::uint32_t slot;
  };
  std::unordered_map<std::uint64_t, Made> made;
  for (CatalogOp& op : step.ops) {
    for (CatalogTensor& tensor : op.tensors) {
      if (!tensor.is_input || tensor.source != kNoSequence) continue;
      const std::optional<std::uint64_t> print = print_of(tensor);
      const auto found = print ? made.find(*print) : made.end();
      if (found == made.end()) continue;
      tensor.source = found->second.sequence;
      tensor.source_slot = found->second.slot;
      tensor.source_is_likely = true;
    }
    for (const CatalogTensor& tensor : op.tensors) {
      if (tensor.is_input) continue;
      if (const std::optional<std::uint64_t> print = print_of(tensor)) made[*print] = {op.sequence, tensor.slot};
    }
  }
  name_parameters(step);
}

}  // namespace sonde
