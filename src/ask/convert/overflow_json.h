// The records of overflows that CANN writes (Opdebug.Node_OpDebug.*): their fields, and the JSON that msaccucmp makes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/result.h"

namespace sonde {

struct OverflowRecord {
  std::uint64_t task_id = 0, stream_id = 0, context_id = 0, thread_id = 0;
  bool has_context = false;  // new records have it; 65535 means none
  // " [AIC][TaskId:42][StreamId:7][Status:32]", for each section of an old record whose status is not 0; the ids are of
  // the last. Empty: nothing happened.
  std::vector<std::string> summary_lines;
  std::string json;  // indented by 4
};

// `bytes`: the data of an output of such a file. Fails with `corrupt` if it is neither a new record (it begins with
// 5a5a5a5a) nor an old one (2048 bytes), `unsupported` for a new one of an unknown kind.
Result<OverflowRecord> read_overflow_record(std::span<const std::byte> bytes);

// "Opdebug.Node_OpDebug.…"
bool is_overflow_file(std::string_view name);

}  // namespace sonde
