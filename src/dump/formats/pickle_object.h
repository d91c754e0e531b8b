// The object in a pickle: nodes, which read_pickle() builds opcode by opcode, and the tensors in them.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "dump/formats/pickle.h"

namespace sonde::pickle {

using PickleId = std::uint32_t;

enum class Kind : std::uint8_t { other, integer, text, sequence, dictionary, global, storage, tensor };

struct PickleNode {
  Kind kind = Kind::other;
  std::int64_t integer = 0;     // of a storage and a tensor: index into the machine's; a boolean: 0 or 1
  std::string_view text;        // of a global: module, line feed, name
  std::vector<PickleId> items;  // of a dictionary: keys and values in turn
};

// Adds the tensors of the object to `out`, each named by its place, and its texts. Returns the reason if it cannot;
// empty on success.
std::string collect(const std::deque<PickleNode>& nodes, PickleId root, const std::vector<PickledTensor>& tensors,
                    Pickled& out);

}  // namespace sonde::pickle
