// Operators of a host that Sonde cannot record: in the text that describes the host, and in a note of the journal.
#pragma once

#include <string_view>

namespace sonde {

// Part of the host's text: MindSpore ran operators one by one when the dump began.
inline constexpr std::string_view kPynativeHost = ", PyNative mode";
inline constexpr std::string_view kPynativeNote =
    "PyNative mode: the operators that MindSpore ran one by one, forward and backward, are not recorded; the dump has "
    "only what it "
    "compiled: the optimizer, @jit functions. With set_context(mode=GRAPH_MODE), or @jit around the training step, "
    "everything is recorded";

}  // namespace sonde
