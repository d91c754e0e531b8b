// Pickle: what a pickled object of PyTorch says of its tensors. Runs nothing: a pickle that asks for a call of anything but
// the few functions that put a tensor together is refused, by the name of that function.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/dtype.h"
#include "sonde/result.h"

namespace sonde {

// A tensor as the pickle describes it: its elements lie in a storage elsewhere.
struct PickledTensor {
  std::string name;          // its place in the object: `state.weight`, `0.1`; empty: the object is this tensor
  std::string_view storage;  // key of the storage
  DType dtype = DType::undefined;
  std::uint64_t offset = 0;  // in elements
  std::vector<std::int64_t> shape, strides;
  bool conjugate = false, negative = false;
};

struct PickledStorage {
  std::string_view key;
  std::uint64_t item_bytes = 1;  // of an element as its type counts them
  std::uint64_t elements = 0;
};

struct Pickled {
  std::vector<PickledTensor> tensors;  // in the order of the object; one that occurs several times is listed once
  std::vector<PickledStorage> storages;
  std::vector<std::string_view> texts;  // when the object is a list of texts
  std::size_t bytes = 0;                // that the pickle took
};

// One pickle, from the first byte of `bytes` on. Texts point into it. Fails with `unsupported` for a call, an opcode or a
// type that tensors have no need of, else with `corrupt`; both name the byte.
Result<Pickled> read_pickle(std::string_view bytes);

}  // namespace sonde
