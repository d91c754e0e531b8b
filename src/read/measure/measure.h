// Measure: computes statistics of tensors that the dump holds only as files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "dump/formats/tensor_file.h"
#include "read/catalog/catalog.h"
#include "sonde/result.h"

namespace sonde {

// The facts about a tensor that TensorFile::open needs.
TensorSpec spec_of(const CatalogTensor& tensor);
Result<TensorFile> open_file(const CatalogRank& rank, const CatalogTensor& tensor);

// Type and shape from the header of the tensor's file, if the dump does not have them. Fails if the file cannot be
// read.
Status look_at_file(const CatalogRank& rank, CatalogTensor& tensor);

struct MeasureTask {
  const CatalogRank* rank;
  CatalogTensor* tensor;
};
// Reads the files of tensors that have no statistics, several at a time, and fills in the facts that the catalog lacks.
// `threads` 0: one for each processor. `done` is called after each tensor, by one thread at a time. Returns the errors
// of files that could not be read, in the order of the tasks.
std::vector<std::string> measure_all(std::span<const MeasureTask> tasks, std::size_t threads = 0,
                                     const std::function<void()>& done = {});

// Device, inode, and the number of the tensor in a file with several.
using FileKey = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t>;
// Names of one file (hard links) have one key, and so have their tensors: in a raw file by the type in the name, in a
// container by their place. Empty if the file does not exist.
std::optional<FileKey> file_key(const CatalogRank& rank, const CatalogTensor& tensor);

struct MeasuredFile {
  DType dtype = DType::undefined;
  std::vector<std::int64_t> shape;
  std::optional<KnownStatistics> statistics;  // empty for complex
};

// Reads tensor files and fills in the facts that the catalog lacks: statistics, shape, type. Names of one file (hard
// links) are read once. For one thread.
class Measurer {
 public:
  // Does nothing for a tensor that has statistics or no file. Fails if the file cannot be read.
  Status measure(const CatalogRank& rank, CatalogTensor& tensor);

 private:
  std::map<FileKey, MeasuredFile> by_file_;
};

}  // namespace sonde
