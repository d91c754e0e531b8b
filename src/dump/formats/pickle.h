// Pickle: the tensors in a pickled object of PyTorch. Executes nothing: a pickle that calls anything but the few
// functions that build a tensor is refused, with the name of that function.
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
  std::uint64_t item_bytes = 1;  // of an element of its type
  std::uint64_t elements = 0;
};

struct Pickled {
  std::vector<PickledTensor> tensors;  // in the order of the object; a tensor that occurs several times is listed once
  std::vector<PickledStorage> storages;
  std::vector<std::string_view> texts;  // when the object is a list of texts
  std::size_t bytes = 0;                // the size of the pickle
};

// Reads one pickle, from the first byte of `bytes` on. Texts point into it. Fails with `unsupported` for a call, an
// opcode or a type that tensors do not need, otherwise with `corrupt`; both messages name the byte.
Result<Pickled> read_pickle(std::string_view bytes);

}  // namespace sonde
