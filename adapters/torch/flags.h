// The targets of sonde.set_dump(): modules and code objects, by address. Python keeps them alive, or removes them from
// the table when they die.
#pragma once

#include <unordered_map>

namespace sonde_torch {

// The innermost entry on the stack decides: true flags its ops, false excludes them from a flagged scope around it.
using Flags = std::unordered_map<const void*, bool>;

const Flags* flags();           // null if there are none; valid forever
void set_flags(Flags targets);  // with the GIL

}  // namespace sonde_torch
