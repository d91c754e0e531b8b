// NpyFile: one .npy file of any writer, as a tensor that can be read in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "ground/files/mapped_file.h"
#include "sonde/dtype.h"
#include "sonde/result.h"
#include "sonde/tensor.h"

namespace sonde {

// The header of a .npy file. Format versions 1 to 3.
struct NpyHeader {
  DType dtype = DType::undefined;  // `<E2` and `<T2` are bfloat16
  bool big_endian = false;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  std::uint64_t data_offset = 0;  // the begin of the elements
  std::uint64_t data_bytes = 0;   // their size; they are inside the file
};

// True if a file with this start is a .npy file.
bool is_npy(std::string_view start);

// `start`: the first bytes of the file, with the whole header. `file_bytes`: the size of the file; every size is
// checked against it. Fails with `corrupt`, or `unsupported` for element types that are not numeric.
Result<NpyHeader> parse_npy_header(std::string_view start, std::uint64_t file_bytes);

// Owns the mapping of the file; views are valid as long as it lives. Big-endian elements are converted in memory.
class NpyFile {
 public:
  static Result<NpyFile> open(const std::filesystem::path& path);
  static Result<NpyFile> of(MappedFile mapped);  // errors do not name the file

  const NpyHeader& header() const { return header_; }
  TensorView view() const;

 private:
  NpyFile() = default;
  Status turn_bytes();

  NpyHeader header_;
  std::vector<std::int64_t> strides_;
  MappedFile mapped_;
  std::vector<std::byte> turned_;  // elements of a big-endian file, converted
};

}  // namespace sonde
