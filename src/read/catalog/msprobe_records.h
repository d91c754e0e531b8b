// The records of msprobe's dump.json and debug.json: inputs and outputs of each op or module, in the order of the run.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/catalog/json_reader.h"

namespace sonde {

// A tensor or a number, with its place.
struct MsprobeItem {
  bool is_input = false;
  bool is_parameter = false;  // of a module: one of its `parameters`
  std::uint32_t slot = 0;     // lists are flattened; items that are not tensors keep their place
  std::string key;            // `attn_mask`, `0.1`; empty if the slot is enough
  DType dtype = DType::undefined;
  bool has_shape = false;
  std::vector<std::int64_t> shape;
  std::optional<KnownStatistics> statistics;
  std::string checksum, data_name;
  std::optional<double> constant;
};

struct MsprobeRecord {
  std::string name;
  std::vector<MsprobeItem> items;
  bool is_recompute = false;
};

struct MsprobeHead {
  std::string task, level, framework;
};

// `add` gets each record as soon as it is read. Returns an empty text if all was read, else the error and its byte; the
// records before it have been passed on.
std::string read_msprobe_records(std::string_view json, MsprobeHead& head,
                                 const std::function<void(MsprobeRecord&&)>& add);

// stack.json: names of records, and the lines that called them, innermost first.
std::string read_msprobe_stacks(std::string_view json,
                                const std::function<void(std::vector<std::string>&&, std::vector<SourceLine>&&)>& add);

// construct.json: each record and the module around it, which may be empty.
std::string read_msprobe_parents(std::string_view json,
                                 const std::function<void(std::string_view, std::string_view)>& add);

}  // namespace sonde
