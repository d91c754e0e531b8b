// What sonde.set_dump() was called for: modules and code objects, by address. Python keeps them alive, or takes them out
// when they die.
#pragma once

#include <unordered_map>

namespace sonde_torch {

// The innermost one on the stack that is in here decides: true flags, false takes out of what is flagged around it.
using Flags = std::unordered_map<const void*, bool>;

const Flags* flags();           // null when there are none; valid for ever
void set_flags(Flags targets);  // with the GIL

}  // namespace sonde_torch
