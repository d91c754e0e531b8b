// DumpFile: the facts about the file of an operator or of a golden tensor: shapes, formats and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "guests/msaccucmp/directory.h"
#include "guests/msaccucmp/outcome.h"
#include "sonde/dtype.h"
#include "sonde/tensor.h"

namespace sonde::msaccucmp {

// Elements in C order, mapped from a file or made here; copies share them.
struct Array {
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> owner;

  std::int64_t elements() const;
  // One dimension, the first `most` elements. `strides` is what it points to.
  TensorView flat(std::int64_t (&size_and_stride)[2], std::int64_t most = -1) const;
};

struct DumpTensor {
  std::int32_t data_type = 0;  // CANN's number
  std::int32_t format = 0;
  std::int64_t groups = 0;  // of a convolution's weight
  std::vector<std::int64_t> shape, original_shape;
  std::uint64_t address = 0;
  std::optional<std::int32_t> original_format;
  bool is_sliced = false;  // by FFTS+, or combined again from its slices
  Array array;
  std::optional<Failure> problem;  // the reason why `array` has no elements
};

// The slices of an operator under FFTS+, from the attribute of the file.
struct Slicing {
  bool is_automatic = false;
  std::int64_t slices = 0;
  std::vector<std::vector<std::int64_t>> output_cuts;                 // per output, per axis
  std::vector<std::vector<std::vector<std::int64_t>>> output_shapes;  // per thread, per output
};

struct DumpOp {
  std::string path;  // of the file; "a.b.c.d.*" of merged slices
  std::string name;  // inside the file, with `/`
  std::vector<DumpTensor> inputs, outputs;
  std::optional<Slicing> slicing;
  bool renames = false;       // rows show `name` instead of the operator's name in the file name
  bool lacks_slices = false;  // merged from a number of files that differs from the number of slices
};

// Reads a container, the dump of a nano device, or a .npy file (one output). A tensor whose element type is unknown, or
// whose bytes do not fill its shape, has a `problem`; a file with a wrong header fails.
Outcome<DumpOp> read_dump_file(const std::filesystem::path& file);
// The latest file, or all slices of FFTS+ combined.
Outcome<DumpOp> read_op(const OpFiles& files);

// NumPy's name for the type of the array ("float32" for bfloat16 and the 8-bit floats, which are widened).
std::string array_type_name(DType dtype);
// As in the `DataType` column; "NaN" for a number that the tool does not know.
std::string data_type_name(std::int32_t data_type);

}  // namespace sonde::msaccucmp
