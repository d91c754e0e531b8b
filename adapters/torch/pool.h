// PyTorch's threads, lent to the engine.
#pragma once

namespace sonde_torch {

// Gives the engine the OpenMP team that PyTorch's operators use, if this PyTorch has one.
void lend_pool();
void forget_pool();  // in a forked child: the engine uses no team any more

}  // namespace sonde_torch
