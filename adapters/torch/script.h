// The place of an operator that TorchScript's interpreter runs: its module's path and its lines, which the interpreter
// knows, also for a program without Python.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sites.h"

namespace sonde_torch {

struct ScriptPlace {
  std::uint64_t hash = 0;            // 0: the interpreter does not run on this thread
  std::vector<std::string> modules;  // "TOP(Net)::forward", "block(Block)::forward": outermost first
};

// Cheap where the interpreter does not run, a microsecond where it does.
ScriptPlace script_place();

// "block-Block/conv-Conv2d": the path below the module that the program called; empty for that module itself.
std::string script_scope(const ScriptPlace& place);
// The class of the module that the program called, "Net"; empty for a function.
std::string script_class(const ScriptPlace& place);
// The lines of the running operator, innermost first: of the source that was compiled, where the program knows it.
std::vector<SiteLine> script_lines();

}  // namespace sonde_torch
