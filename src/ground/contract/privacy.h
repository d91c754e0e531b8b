// Privacy: what a redacted answer keeps of a member, by its name (contract/words.toml).
#pragma once

#include <cstdint>
#include <string_view>

namespace sonde {

enum class Privacy : std::uint8_t {
  hidden,    // a text becomes empty
  word,      // a word of a short list, which Sonde chose: stays
  name,      // becomes an alias
  type,      // the type of an operator: stays if Sonde knows it
  rank,      // its number stays
  emptied,   // a list or an object loses its content
  left_out,  // the member goes
  zero,      // a number becomes 0
};

Privacy privacy_of(std::string_view member);

}  // namespace sonde
