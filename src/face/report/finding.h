// Findings in forms for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ask/finding/finding.h"
#include "face/report/json.h"
#include "face/report/table.h"

namespace sonde {

// The place with its tags and its lines of code, then the reason, the evidence and the limits, as paragraphs.
// The first line is `first`, and with the line of code it has a mark (line_kind.h).
std::string page_of(const Finding& finding, std::string_view first = {});
// "  train.py:12 in Net.forward" and the lines of code, that of the finding with a mark; empty if unknown.
std::string code_text(const Code& code);
// "  called from train.py:12 in <module>"; empty if nothing is known.
std::string caller_text(const std::optional<Caller>& caller);
// "  >    12 |     y = torch.log(x)", with a mark if it `is_here`, the line that is meant.
std::string code_line(std::uint64_t number, std::string_view code, bool is_here);
// "Default/copy_-op0 of step 2, train.py:30", not made printable.
std::string earlier_text(const EarlierOp& op);
// "train.py:12", as it is in the dump (not made printable); empty if unknown.
std::string short_line(const Code& code);
// " (backward only, uncertain)", beside a headline; empty without tags.
std::string tags_text(const std::vector<std::string>& tags);
// "next:", with a mark, then each purpose with its command below; empty without commands.
std::string next_text(const std::vector<NextCommand>& commands);
// One row each: kind, rank, step, op, slot, line, why.
Table table_of(const std::vector<Finding>& findings);

// True if one of them is more than a note.
bool has_fault(const std::vector<Finding>& findings);

}  // namespace sonde
