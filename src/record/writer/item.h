// Item: what the host's threads hand to the writer: records, the definitions that they name, and what will never come.
#pragma once

#include <cstdint>
#include <string>
#include <variant>

#include "dump/journal/record.h"
#include "record/writer/brief_ops.h"

namespace sonde {

// Records that will never be pushed.
struct Skip {
  std::uint64_t from = 0, to = 0;  // [from, to)
};

// A line for people, in the journal.
struct Note {
  std::string text;
};

using Item = std::variant<Record, BriefOps, Site, OpName, Attributes, SourceText, Skip, Note>;

}  // namespace sonde
