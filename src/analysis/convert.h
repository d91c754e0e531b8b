// convert: the tensors of binary files (CANN's containers, raw .bin files of MindSpore 1.2) as .npy files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "sonde/result.h"

namespace sonde {

struct ConvertedFile {
  std::filesystem::path path;  // of the .npy
  std::uint64_t bytes = 0;     // of the tensor in it
};

// Writes `{name of the file}.{input|output}.{slot}.npy` for each tensor of a container into `directory`, or `{name without
// .bin}.npy` for a raw file; the directory is made, a file of that name is replaced. Values are exact: types that NumPy
// does not have (bfloat16, the 8-bit floats) are widened to float32. A slot without bytes gets no file. Fails with the
// first tensor that cannot be read or written, and names it; what was written before stays.
Result<std::vector<ConvertedFile>> convert_file(const std::filesystem::path& file,
                                                const std::filesystem::path& directory);

}  // namespace sonde
