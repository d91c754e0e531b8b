// Names of weights say which are alike in all layers, which are numbered, which two are called the same.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace sonde {

// "h#.up#.weight" for "h1.up2.weight".
std::string pattern_of(std::string_view name);
// {1, 2} for "h1.up2.weight".
std::vector<std::int64_t> numbers_of(std::string_view name);
// "wmixk" for "w.mix_k".
std::string letters_of(std::string_view name);
// "blocks.#.fc1.weight" for "blocks.3.fc1.weight": the names of one weight in all layers.
std::string name_in_layers(std::string_view name);

// "to_k.weight" for "cross.to_k.weight".
std::string_view last_names(std::string_view name);

}  // namespace sonde
