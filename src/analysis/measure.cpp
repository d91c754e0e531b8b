#include "analysis/measure.h"

#include <sys/stat.h>

#include "store/npy_reader.h"

namespace sonde {

Status Measurer::measure(const CatalogRank& rank, CatalogTensor& tensor) {
  if (tensor.statistics || tensor.file.empty()) return {};
  const std::filesystem::path path = rank.directory / tensor.file;
  struct stat status {};
  const bool known_file = ::stat(path.c_str(), &status) == 0;
  const std::pair<std::uint64_t, std::uint64_t> key(status.st_dev, status.st_ino);
  auto at = known_file ? by_file_.find(key) : by_file_.end();
  if (at == by_file_.end()) {
    const Result<NpyFile> file = NpyFile::open(path);
    if (!file) return file.error();
    Measured measured;
    measured.dtype = file->header().dtype;
    measured.shape = file->header().shape;
    if (info(measured.dtype).has_statistics) measured.statistics = known(summarize(file->view()));
    at = by_file_.insert_or_assign(key, std::move(measured)).first;
  }
  // The file of a bfloat16 tensor holds float32: what the dump says of the type is right.
  if (tensor.dtype == DType::undefined) tensor.dtype = at->second.dtype;
  if (!tensor.has_shape) {
    tensor.shape = at->second.shape;
    tensor.has_shape = true;
  }
  tensor.statistics = at->second.statistics;
  return {};
}

}  // namespace sonde
