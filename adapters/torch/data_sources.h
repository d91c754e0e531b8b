// The texts of source files whose names come from data: a saved TorchScript or exported program was written by anybody,
// and may name any file of this machine. A dump, which is made to be given away, has the text that the data contain.
#pragma once

#include <string>
#include <string_view>

namespace sonde_torch {

// Tells the engine the lines of `file` that data contain, from `first_line` on (0: none), together with those of
// before. Not for a file that the program has loaded, which the engine reads. Before the first site that names it.
void keep_text_of_data(const std::string& file, int first_line, std::string_view text);

// A new dump has no texts.
void forget_texts_of_data();

}  // namespace sonde_torch
