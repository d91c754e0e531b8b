// The keys that every MindSpore release has, read by the rules of plan.sonde.rules.
#pragma once

#include <string_view>

#include "plan/config/object_reader.h"
#include "plan/config/plan.h"

namespace sonde {
class Diagnostics;

inline constexpr std::string_view kUnsigned = "an unsigned integer";

// `path` (from 2.0 on also MS_DIAGNOSTIC_DATA_PATH) and `net_name`.
void read_place(ObjectReader& reader, const JsonValue& object, Plan& plan, Diagnostics& diagnostics);
// `iteration` as text: 1.3 and later.
void read_iteration(ObjectReader& reader, Plan& plan);
// `iteration` as a number, 0 for every step: 1.2 and before.
void read_iteration_number(ObjectReader& reader, Plan& plan);
// `dump_mode`, under its name in the file.
void read_dump_mode(ObjectReader& reader, std::string_view key, Plan& plan);
void read_input_output(ObjectReader& reader, Plan& plan);
void read_support_device(ObjectReader& reader, Plan& plan, Diagnostics& diagnostics);
void read_kernels_of(ObjectReader& reader, Plan& plan, Diagnostics& diagnostics);

// Of MindSpore's own key `path`.
bool is_path_character(char c);

// The members of `value` that the release of plan.sonde.rules reads; warns for each that it does not know yet.
JsonValue as_read_then(const JsonValue& value, std::string_view object, const Plan& plan, Diagnostics& diagnostics);

}  // namespace sonde
