#include "read/catalog/tensor_evidence.h"

#include <xxhash.h>

#include <algorithm>

#include "dump/formats/tensor_file.h"
#include "sonde/tensor.h"

namespace sonde {
namespace {

constexpr std::uint64_t kSampled = 64 << 10;  // bytes at the start, in the middle and at the end

}  // namespace

std::optional<std::uint64_t> elements_of(const Dims& shape) {
  std::uint64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(elements, static_cast<std::uint64_t>(size), &elements)) return std::nullopt;
  }
  return elements;
}

bool sizes_agree(const CatalogTensor& a, const CatalogTensor& b) {
  return !a.has_shape || !b.has_shape || elements_of(a.shape) == elements_of(b.shape);
}

const TensorEvidence::Facts& TensorEvidence::of(const CatalogTensor& tensor) {
  const auto [found, fresh] = facts_.try_emplace(&tensor);
  if (fresh) found->second = look(tensor);
  return found->second;
}

TensorEvidence::Facts TensorEvidence::look(const CatalogTensor& tensor) {
  Facts facts;
  facts.dtype = tensor.dtype;
  if (tensor.has_shape) facts.elements = elements_of(tensor.shape);
  if (!tensor.file.empty() && bytes_left_ > 0) sample(tensor, facts);
  return facts;
}

void TensorEvidence::sample(const CatalogTensor& tensor, Facts& facts) {
  TensorSpec spec{.is_input = tensor.is_input, .slot = tensor.slot, .dtype = tensor.dtype};
  if (tensor.has_shape) spec.shape.emplace(tensor.shape.begin(), tensor.shape.end());
  const Result<TensorFile> file = TensorFile::open(rank_.directory / tensor.file, spec);
  if (!file) return;
  const TensorView view = file->view();
  if (facts.dtype == DType::undefined) facts.dtype = view.dtype;
  facts.elements = static_cast<std::uint64_t>(view.elements());
  const std::uint64_t bytes = view.bytes();
  if (!view.is_dense() || bytes == 0) return;
  const std::uint64_t part = std::min(bytes, kSampled);
  std::uint64_t hash = bytes;
  for (const std::uint64_t at : {std::uint64_t{0}, (bytes - part) / 2, bytes - part}) {
    hash = XXH64(view.data + at, part, hash);
    bytes_left_ -= std::min(bytes_left_, part);
    if (part == bytes) break;
  }
  facts.sample = hash;
}

std::optional<bool> TensorEvidence::same(const CatalogTensor& a, const CatalogTensor& b) {
  if (a.content != 0 && a.content == b.content) return true;
  const Facts& first = of(a);
  const Facts second = of(b);
  if (first.dtype != DType::undefined && second.dtype != DType::undefined && first.dtype != second.dtype) return false;
  if (first.elements && second.elements && *first.elements != *second.elements) return false;
  if (first.sample && second.sample) return *first.sample == *second.sample;
  if (!a.md5.empty() && !b.md5.empty()) return a.md5 == b.md5;
  if (!a.sha1.empty() && !b.sha1.empty()) return a.sha1 == b.sha1;
  if (!a.statistics || !b.statistics) return std::nullopt;
  // A NaN proves no difference, and equals nothing.
  if (!a.statistics->all_finite() || !b.statistics->all_finite()) return std::nullopt;
  return a.statistics == b.statistics;
}

}  // namespace sonde
