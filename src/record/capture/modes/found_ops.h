// FoundOps: the operators that a mode was looking for: those that overflowed, or the one that threw.
#pragma once

#include <cstdint>
#include <string>

#include "dump/journal/record.h"
#include "record/capture/sites.h"

namespace sonde {

struct FoundOps {
  std::uint64_t count = 0;
  // The op in the closing line: the first that overflowed, or the last that threw.
  std::string place;    // "Default/network-Net/log-op0 (train.py:45)"
  std::string op_name;  // and its graph, for a host whose own graph knows the line
  std::uint32_t graph = 0;

  void name(const Record& record, const Site& site) {
    place = place_text(*record.op, site);
    op_name = record.op->op_name;
    graph = record.step.graph;
  }
};

}  // namespace sonde
