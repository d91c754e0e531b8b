// Finds the forward op of the node that the autograd engine runs now.
#pragma once

#include <cstdint>

namespace sonde_torch {

// Site of that forward op, 0 when unknown. For the node that adds up a parameter's gradient it is the forward op whose
// backward produced that gradient: the one that read the parameter. To be called once when a node begins, in order.
std::uint32_t site_of_current_node();
// Site numbers have lost their meaning: another session begins.
void forget_nodes();

}  // namespace sonde_torch
