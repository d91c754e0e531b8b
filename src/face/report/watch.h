// The result of `sonde watch`, as a table or as an answer in the shape that MindSpore's debugger gives its hits.
#pragma once

#include <span>
#include <string>

#include "ask/watch/watchpoints.h"
#include "contract/command_answers.h"

namespace sonde {

// `width` of the terminal; 0: none.
std::string summary_table(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report,
                          std::size_t width);  // a row for each condition
std::string hits_table(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report,
                       std::size_t width);
// The tensors that could not be judged, one line for each condition and reason.
std::string doubts_text(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report);
WatchDocument answer_of(const Catalog& catalog, std::span<const Watchpoint> watchpoints, const WatchReport& report);

// The parameters of the hit's condition, and what was found for each.
std::vector<JudgedValue> judged_values(const WatchHit& hit);

// The catalogue of conditions.
std::string conditions_table(std::size_t width);
WatchDocument conditions_answer();

}  // namespace sonde
