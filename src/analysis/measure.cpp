#include "analysis/measure.h"

#include <sys/stat.h>

#include "store/tensor_file.h"

namespace sonde {
namespace {

// Names of one .npy are one tensor; a raw file is of the type that its name says; a .pt may hold several.
std::uint64_t part_of(const CatalogTensor& tensor) {
  if (tensor.file.ends_with(".pt") || tensor.file.ends_with(".pth")) return tensor.slot;
  if (is_container_name(tensor.file)) return 2 * std::uint64_t{tensor.slot} + (tensor.is_input ? 1 : 0);
  return tensor.file.ends_with(".bin") ? static_cast<std::uint64_t>(tensor.dtype) : 0;
}

}  // namespace

TensorWish wish_of(const CatalogTensor& tensor) {
  TensorWish wish;
  wish.is_input = tensor.is_input;
  wish.slot = tensor.slot;
  wish.dtype = tensor.dtype;
  if (tensor.has_shape) wish.shape = tensor.shape;
  return wish;
}

Status Measurer::measure(const CatalogRank& rank, CatalogTensor& tensor) {
  if (tensor.statistics || tensor.file.empty()) return {};
  const std::filesystem::path path = rank.directory / tensor.file;
  struct stat status {};
  const bool known_file = ::stat(path.c_str(), &status) == 0;
  const std::tuple key(status.st_dev, status.st_ino, part_of(tensor));
  auto at = known_file ? by_file_.find(key) : by_file_.end();
  if (at == by_file_.end()) {
    const Result<TensorFile> file = TensorFile::open(path, wish_of(tensor));
    if (!file) return file.error();
    Measured measured;
    measured.dtype = file->dtype();
    measured.shape = file->shape();
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
