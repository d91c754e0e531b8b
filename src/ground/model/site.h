// Site: a place in the user's program that runs an op. OpName: an op of the graph, with a name that stays the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ground/model/source_line.h"
#include "sonde/step.h"

namespace sonde {

// Interned: one site per (type, scope, line).
struct Site {
  std::uint32_t id = 0;  // from 1; 0 means "no site"
  Phase phase = Phase::forward;
  std::string op_type;             // `conv2d`
  std::string scope;               // `network-AlexNet/features/0-Conv2d`; empty outside any module
  bool flagged = false;            // dump_mode 2: set_dump was called for something around it
  std::string forward_op_type;     // backward: the op it differentiates; empty when unknown
  std::uint32_t forward_site = 0;  // backward: that op's site
  // The callers, innermost first: from the op's own line to the program's. Backward ops carry their forward op's. Empty
  // when unknown.
  std::vector<SourceLine> trace;
};

// The text of a source that has no file of its own: a notebook's cell.
struct SourceText {  // empty: its file is not read
  std::string file, text;
};

// One op of the graph: a name that is stable from step to step. Owned by capture, lives as long as the session.
struct OpName {
  std::uint32_t id = 0;  // from 1
  std::string op_type;   // `conv2d`; `Parameter` for parameters, data and constants
  std::string op_name;   // `Default/network-AlexNet/0-Conv2d/conv2d-op0`; `features.0.weight`
};

}  // namespace sonde
