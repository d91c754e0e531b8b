#include "read/measure/measure.h"

#include <sys/stat.h>

#include <mutex>
#include <optional>
#include <utility>

#include "dump/formats/tensor_file.h"
#include "ground/base/parallel.h"
#include "ground/files/packed_path.h"

namespace sonde {
namespace {

// All names of one .npy are one tensor. A raw file has the type that its name gives.
std::uint64_t part_of(const CatalogTensor& tensor) {
  if (is_container_name(tensor.file)) return 2 * std::uint64_t{tensor.slot} + (tensor.is_input ? 1 : 0);
  return tensor.file.ends_with(".bin") ? static_cast<std::uint64_t>(tensor.dtype) : 0;
}

Result<MeasuredFile> measure_file(const CatalogRank& rank, const CatalogTensor& tensor) {
  const Result<TensorFile> file = open_file(rank, tensor);
  if (!file) return file.error();
  MeasuredFile measured;
  measured.dtype = file->dtype();
  measured.shape = file->shape();
  if (info(measured.dtype).has_statistics) measured.statistics = known(summarize(file->view()));
  return measured;
}

// The file of a bfloat16 tensor holds float32, so the type in the dump is right.
void fill_in(DType dtype, const std::vector<std::int64_t>& shape, CatalogTensor& tensor) {
  if (tensor.dtype == DType::undefined) tensor.dtype = dtype;
  if (!tensor.has_shape) tensor.shape = shape;
  tensor.has_shape = true;
}

void fill_in(const MeasuredFile& measured, CatalogTensor& tensor) {
  fill_in(measured.dtype, measured.shape, tensor);
  tensor.statistics = measured.statistics;
}

bool is_measured(const CatalogTensor& tensor) { return tensor.statistics || tensor.file.empty(); }

}  // namespace

std::optional<FileKey> file_key(const CatalogRank& rank, const CatalogTensor& tensor) {
  struct stat status {};
  const std::filesystem::path path = rank.directory / tensor.file;
  if (stat_tensor(path, status) != 0) return std::nullopt;
  return FileKey(status.st_dev, status.st_ino, part_of(tensor));
}

Status look_at_file(const CatalogRank& rank, CatalogTensor& tensor) {
  if ((tensor.dtype != DType::undefined && tensor.has_shape) || tensor.file.empty()) return {};
  const Result<TensorFile> file = open_file(rank, tensor);
  if (!file) return file.error();
  fill_in(file->dtype(), file->shape(), tensor);
  return {};
}

TensorSpec spec_of(const CatalogTensor& tensor) {
  TensorSpec spec;
  spec.is_input = tensor.is_input;
  spec.slot = tensor.slot;
  spec.dtype = tensor.dtype;
  if (tensor.has_shape) spec.shape.emplace(tensor.shape.begin(), tensor.shape.end());
  return spec;
}

Result<TensorFile> open_file(const CatalogRank& rank, const CatalogTensor& tensor) {
  return TensorFile::open(rank.directory / tensor.file, spec_of(tensor));
}

Status Measurer::measure(const CatalogRank& rank, CatalogTensor& tensor) {
  if (is_measured(tensor)) return {};
  const std::optional<FileKey> key = file_key(rank, tensor);
  const auto known_file = key ? by_file_.find(*key) : by_file_.end();
  if (known_file != by_file_.end()) {
    fill_in(known_file->second, tensor);
    return {};
  }
  Result<MeasuredFile> measured = measure_file(rank, tensor);
  if (!measured) return measured.error();
  fill_in(*measured, tensor);
  if (key) by_file_.emplace(*key, std::move(*measured));
  return {};
}

std::vector<std::string> measure_all(std::span<const MeasureTask> tasks, std::size_t threads,
                                     const std::function<void()>& done) {
  const Threads pool(threads);
  std::vector<std::optional<FileKey>> keys(tasks.size());
  pool.for_each(tasks.size(), [&](std::size_t i) {
    if (!is_measured(*tasks[i].tensor)) keys[i] = file_key(*tasks[i].rank, *tasks[i].tensor);
  });
  std::vector<std::vector<std::size_t>> files;  // tasks of one file
  std::map<FileKey, std::size_t> known_files;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (is_measured(*tasks[i].tensor)) continue;
    const auto [at, is_new] =
        keys[i] ? known_files.try_emplace(*keys[i], files.size()) : std::pair(known_files.end(), true);
    if (is_new) {
      files.push_back({i});
    } else {
      files[at->second].push_back(i);
    }
  }
  std::vector<std::string> wrong(tasks.size());
  std::mutex one;
  pool.for_each(files.size(), [&](std::size_t f) {
    const MeasureTask& first = tasks[files[f][0]];
    const Result<MeasuredFile> measured = measure_file(*first.rank, *first.tensor);
    for (const std::size_t i : files[f]) {
      if (measured) {
        fill_in(*measured, *tasks[i].tensor);
      } else {
        wrong[i] = measured.error().message;
      }
      const std::lock_guard lock(one);
      if (done) done();
    }
  });
  std::erase(wrong, "");
  return wrong;
}

}  // namespace sonde
