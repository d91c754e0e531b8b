// grown(): an element of a table by its id; the table grows up to it.
#pragma once

#include <cstddef>
#include <vector>

namespace sonde {

template <typename T>
T& grown(std::vector<T>& table, std::size_t index) {
  if (index >= table.size()) table.resize(index + 1);
  return table[index];
}

}  // namespace sonde
