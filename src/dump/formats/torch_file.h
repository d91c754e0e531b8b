// TorchFile: the tensors of a file that torch.save wrote, in place and without PyTorch. Its pickle is not executed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/dtype.h"
#include "sonde/result.h"

namespace sonde {

struct TorchTensor {
  std::string name;  // its place in the saved object: `state.weight`, `0.1`; empty: the object is this tensor
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape, strides;  // strides in elements
  std::uint64_t data_offset = 0;             // of the first element in the file; all elements lie inside it
  bool conjugate = false, negative = false;
};

struct TorchHeader {
  std::vector<TorchTensor> tensors;
  bool big_endian = false;
};

// True if a file that starts like this may be a torch file: a zip archive, or a pickle of PyTorch before 1.6.
bool is_torch(std::string_view start);

// `file`: the whole file; only its directory and its pickle are read. Every size is checked against it.
Result<TorchHeader> parse_torch(std::string_view file);

// Reads the file's facts about its tensors without touching them. Errors name the file.
Result<TorchHeader> read_torch(const std::filesystem::path& path);

}  // namespace sonde
