// The place of an op: its site (module chain, line, phase) and its graph.
#pragma once

#include <cstdint>
#include <string>

#include "thread_state.h"

namespace sonde_torch {

struct Place {
  std::uint32_t site = 0;
  sonde_graph graph = SONDE_GRAPH_TRAINING;
};

// The place of the op `fn` that starts now on this thread; `number` distinguishes op types. Walks the interpreter's
// stack; takes the GIL if the place is new.
Place place_of(ThreadState& state, const at::RecordFunction& fn, const char* op_type, std::uint64_t number);

// The place of a node of backward itself, as if it were an operator: `PowBackward0` in the place of its forward op.
std::uint32_t site_of_node(ThreadState& state, const char* name, std::uint32_t forward_site);

// True if the step clock must begin without a root: asked while none was seen, at growing intervals.
bool bare_training(ThreadState& state);
// True if a module with parameters exists, which may still be called.
bool parameters_exist(ThreadState& state);

// A package of compiled code is called on this thread. If no module calls it, a forward begins, and `state.package` is
// `identity`, which is the same for the same package.
sonde_graph package_begins(ThreadState& state, const void* identity);
// The modules that are being called: "network-Net/decoder-Decoder"; empty: none.
std::string scope_of_callers();

// Module objects died or changed: names by address are invalid.
void forget_scopes();
// The texts of sources without files are reported again: another session begins. With the GIL.
void forget_source_texts();

}  // namespace sonde_torch
