// Finds the forward op of the node that the autograd engine runs now.
#pragma once

#include <cstdint>

namespace sonde_torch {

// The site of that forward op, 0 if unknown. For the node that accumulates a parameter's gradient it is the forward op
// whose backward produced that gradient: the one that read the parameter. Must be called once when a node begins, in
// order. `unknown`: no operator made this node.
std::uint32_t site_of_current_node(bool unknown);
// Site numbers are no longer valid: another session begins.
void forget_nodes();

}  // namespace sonde_torch
