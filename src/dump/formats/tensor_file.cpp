#include "dump/formats/tensor_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>

#include "dump/formats/atb_file.h"
#include "dump/formats/cann_elements.h"
#include "dump/formats/cann_types.h"
#include "dump/formats/file_names.h"
#include "dump/formats/torch_file.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/packed_path.h"

namespace sonde {
namespace {

// A tensor that repeats its elements (a stride of 0) is expanded up to this size.
constexpr std::uint64_t kMostExpanded = std::uint64_t{1} << 30;
constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

// False if the product exceeds the range of a file's size.
bool bytes_of(const std::vector<std::int64_t>& shape, std::uint64_t item_bytes, std::uint64_t& bytes) {
  bytes = item_bytes;
  if (std::ranges::find(shape, 0) != shape.end()) bytes = 0;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && bytes > kMostBytes / static_cast<std::uint64_t>(size))) return false;
    bytes *= static_cast<std::uint64_t>(size);
  }
  return true;
}

std::vector<std::int64_t> c_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::uint64_t step = 1;  // may wrap if a tensor without elements has huge sizes; the strides are not used then
  for (std::size_t d = shape.size(); d-- > 0;) {
    strides[d] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(shape[d], 1));
  }
  return strides;
}

// The bytes from a view's first element to its last, with the bytes of each `word` reversed.
std::vector<std::byte> turned_words(const TensorView& view, std::size_t word) {
  std::uint64_t last = 0;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    last += static_cast<std::uint64_t>(view.shape[d] - 1) * static_cast<std::uint64_t>(view.strides[d]);
  }
  std::vector<std::byte> out((last + 1) * info(view.dtype).item_bytes);
  for (std::size_t at = 0; at < out.size(); at += word) {
    std::reverse_copy(view.data + at, view.data + at + word, out.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return out;
}

std::string slot_name(const TensorSpec& spec) {
  return fmt::format("{}.{}", spec.is_input ? "input" : "output", spec.slot);
}

}  // namespace

bool is_container_name(std::string_view name) { return !name.ends_with(".npy") && !name.ends_with(".bin"); }

bool is_torch_name(std::string_view name) { return name.ends_with(".pt") || name.ends_with(".pth"); }

Result<TensorFile> TensorFile::open(const std::filesystem::path& path, const TensorSpec& spec) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  TensorFile file;
  file.mapped_ = std::move(*mapped);
  if (Status read = file.read(path, spec); !read) return cannot_read(path, read.error().code, read.error().message);
  return file;
}

// Decides by the first bytes, or by the name if they do not decide.
Status TensorFile::read(const std::filesystem::path& path, const TensorSpec& spec) {
  const std::string name = path.filename();
  if (is_npy(mapped_.text()) || name.ends_with(".npy")) return read_npy();
  if (is_torch(mapped_.text()) || is_torch_name(name)) return read_torch(spec);
  if (is_atb(mapped_.text())) return read_atb(path);
  return is_container_name(name) ? read_container(spec) : read_raw(name, spec);
}

Status TensorFile::read_npy() {
  Result<NpyFile> npy = NpyFile::of(std::move(mapped_));
  if (!npy) return npy.error();
  dtype_ = npy->header().dtype;
  shape_ = npy->header().shape;
  npy_ = std::move(*npy);
  return {};
}

Status TensorFile::read_torch(const TensorSpec& spec) {
  const Result<TorchHeader> header = parse_torch(mapped_.text());
  if (!header) return header.error();
  const std::size_t count = header->tensors.size();
  const std::size_t at = count == 1 ? 0 : spec.slot;
  if (at >= count) {
    return Error{ErrorCode::not_found,
                 count == 0 ? std::string("it holds no tensor") : fmt::format("no tensor {}: it holds {}", at, count)};
  }
  const TorchTensor& tensor = header->tensors[at];
  dtype_ = tensor.dtype;
  shape_ = tensor.shape;
  strides_ = tensor.strides;
  data_ = mapped_.data() + tensor.data_offset;
  TensorView saved = view();
  saved.conjugate = tensor.conjugate;
  saved.negative = tensor.negative;
  return settle(saved, header->big_endian);
}

Status TensorFile::read_atb(const std::filesystem::path& path) {
  Result<AtbHeader> header = parse_atb(mapped_.text());
  if (!header) return header.error();
  if (header->data_offset == mapped_.bytes() && !header->data.empty()) {
    // The path may have been different on the writing machine, so only the name is used, and only beside this file.
    const std::filesystem::path beside = path.parent_path() / std::filesystem::path(header->data).filename();
    Result<MappedFile> data = MappedFile::open(beside);
    if (!data) return data.error();
    mapped_ = std::move(*data);
    header->data_offset = 0;
    if (is_atb(mapped_.text())) {
      const Result<AtbHeader> own = parse_atb(mapped_.text());
      if (!own) return own.error();
      header->data_offset = own->data_offset;
    }
  }
  dtype_ = header->dtype;
  shape_ = header->shape;
  const std::uint64_t left = mapped_.bytes() - header->data_offset;
  std::uint64_t bytes = 0;
  if (!bytes_of(shape_, info(dtype_).item_bytes, bytes) || bytes > left) {
    return Error{ErrorCode::corrupt,
                 fmt::format("{} bytes follow the header; {} of {} need {}", left, shape_text(shape_, '(', ')'),
                             info(dtype_).lower, bytes == 0 ? "more than a file can have" : std::to_string(bytes))};
  }
  return lay(header->data_offset);
}

Status TensorFile::read_raw(const std::string& own, const TensorSpec& spec) {
  TensorFileName parts;
  const bool named = parse_tensor_file_name(spec.name.empty() ? std::string_view(own) : spec.name, parts);
  dtype_ = spec.dtype != DType::undefined || !named ? spec.dtype : dtype_from_name(parts.dtype);
  if (dtype_ == DType::undefined || (!spec.shape && !named)) {
    return Error{ErrorCode::unsupported,
                 "a file without a header, and its name does not say type and shape; expected "
                 "NAME_output_0_shape_2_3_Float32_DefaultFormat.bin"};
  }
  shape_ = spec.shape ? *spec.shape : parts.shape;
  std::uint64_t bytes = 0;
  if (!bytes_of(shape_, info(dtype_).item_bytes, bytes) || bytes != mapped_.bytes()) {
    return Error{ErrorCode::corrupt, fmt::format("it has {} bytes; {} of {} take {}", mapped_.bytes(),
                                                 shape_text(shape_, '(', ')'), info(dtype_).lower, bytes)};
  }
  return lay(0);
}

Status TensorFile::read_container(const TensorSpec& spec) {
  const Result<Container> container = parse_container(mapped_.text(), mapped_.bytes());
  if (!container) return container.error();
  const std::vector<ContainerTensor>& side = spec.is_input ? container->inputs : container->outputs;
  if (spec.slot >= side.size()) {
    return Error{ErrorCode::not_found, fmt::format("no {}: it holds {} inputs and {} outputs", slot_name(spec),
                                                   container->inputs.size(), container->outputs.size())};
  }
  if (Status taken = take(side[spec.slot], spec); !taken) {
    return Error{taken.error().code, slot_name(spec) + ": " + taken.error().message};
  }
  return {};
}

Status TensorFile::take(const ContainerTensor& tensor, const TensorSpec& spec) {
  dtype_ = dtype_of_cann(tensor.data_type);
  // CANN has no number for some types. If the dump gives the type, it is used.
  const bool is_ours = tensor.data_type == kCannUndefined && tensor.bytes > 0 && spec.dtype != DType::undefined &&
                       cann_type(spec.dtype) == kCannUndefined;
  if (is_ours) dtype_ = spec.dtype;
  if (tensor.data_type == kCannUndefined && !is_ours) {
    dtype_ = DType::int8;
    shape_ = {static_cast<std::int64_t>(tensor.bytes)};
    return lay(tensor.offset);
  }
  const std::optional<CannElements> elements = cann_elements(tensor.data_type);
  if (dtype_ == DType::undefined && elements) dtype_ = elements->dtype;
  if (dtype_ == DType::undefined) {
    return Error{ErrorCode::unsupported,
                 fmt::format("element type {} is not numeric", cann_type_name(tensor.data_type))};
  }
  for (const std::uint64_t size : tensor.shape) {
    shape_.push_back(size > kMostBytes ? -1 : static_cast<std::int64_t>(size));
  }
  std::uint64_t bytes = 0, count = 0;
  const bool decoded = elements && elements->decoded;
  bool fits = bytes_of(shape_, decoded ? 1 : info(dtype_).item_bytes, bytes);
  if (decoded) bytes = elements->bytes(count = bytes);
  fits = fits && bytes <= tensor.bytes;
  if (!fits) {
    return Error{ErrorCode::corrupt,
                 fmt::format("the header says {} bytes from byte {} on; {} of {} need {}", tensor.bytes, tensor.offset,
                             shape_text(shape_, '(', ')'), cann_type_name(tensor.data_type),
                             bytes == 0 ? "more than a file can have" : std::to_string(bytes))};
  }
  return decoded ? decode(tensor, count) : lay(tensor.offset);
}

// Elements of less than a byte, or of a format that no processor computes with.
Status TensorFile::decode(const ContainerTensor& tensor, std::uint64_t count) {
  strides_ = c_strides(shape_);
  try {
    copy_.resize(count * info(dtype_).item_bytes);
  } catch (const std::exception&) {  // length_error, bad_alloc
    return Error{ErrorCode::io, fmt::format("not enough memory for {} elements", count)};
  }
  decode_cann(tensor.data_type, mapped_.data() + tensor.offset, 0, count, copy_.data());
  data_ = copy_.data();
  return {};
}

// The elements begin at `offset`, in C order. The caller has checked that they lie inside the file.
Status TensorFile::lay(std::uint64_t offset) {
  strides_ = c_strides(shape_);
  data_ = mapped_.data() + offset;
  if (info(dtype_).item_bytes == 0 || reinterpret_cast<std::uintptr_t>(data_) % info(dtype_).item_bytes == 0) return {};
  std::uint64_t bytes = 0;
  bytes_of(shape_, info(dtype_).item_bytes, bytes);
  try {
    copy_.assign(data_, data_ + bytes);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::io, fmt::format("not enough memory for {} bytes", bytes)};
  }
  data_ = copy_.data();
  return {};
}

// Readers of a tensor expect contiguous elements, in any order: `saved` stays in place if its elements are contiguous;
// otherwise they are copied in C order.
Status TensorFile::settle(const TensorView& saved, bool big_endian) {
  const std::size_t item = info(dtype_).item_bytes;
  const std::size_t word = is_complex(dtype_) ? item / 2 : item;
  const bool turn = big_endian && word > 1;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(data_) % std::max<std::size_t>(word, 1) == 0;
  const bool is_empty = std::ranges::find(shape_, 0) != shape_.end();
  if (is_empty) {
    strides_ = c_strides(shape_);
    return {};
  }
  std::uint64_t bytes = 0;
  const bool can_be_counted = bytes_of(shape_, item, bytes);  // before a view multiplies the sizes
  if (can_be_counted && is_aligned && !turn && !saved.conjugate && !saved.negative && saved.is_dense()) return {};
  if (!can_be_counted || bytes > std::max<std::uint64_t>(mapped_.bytes(), kMostExpanded)) {
    return Error{ErrorCode::unsupported,
                 fmt::format("{} of {} expands the {} bytes of the file; the complete tensor needs {}",
                             shape_text(shape_, '(', ')'), info(dtype_).lower, mapped_.bytes(),
                             bytes == 0 ? "more than a file can have" : fmt::format("{} bytes", bytes))};
  }
  std::vector<std::byte> turned;
  TensorView from = saved;
  try {
    copy_.resize(bytes);
    if (turn) {  // the elements between the first and the last
      turned = turned_words(saved, word);
      from.data = turned.data();
    }
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::io, fmt::format("not enough memory for {} bytes", bytes)};
  }
  copy_c_order(from, copy_.data());
  strides_ = c_strides(shape_);
  data_ = copy_.data();
  return {};
}

TensorView TensorFile::view() const {
  if (npy_) return npy_->view();
  TensorView view;
  view.dtype = dtype_;
  view.data = data_;
  view.shape = shape_;
  view.strides = strides_;
  return view;
}

Result<Container> read_container(const std::filesystem::path& path) {
  if (packed_path(path.native())) {
    const Result<MappedFile> mapped = MappedFile::open(path);
    if (!mapped) return mapped.error();
    Result<Container> container = parse_container(mapped->text(), mapped->bytes());
    if (!container) return cannot_read(path, container.error().code, container.error().message);
    return container;
  }
  if (Status brought = bring_file(path); !brought) return cannot_read(path, ErrorCode::io, brought.error().message);
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return cannot_read(path, errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return cannot_read(path, ErrorCode::io, "not a regular file");
  }
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  const Result<std::uint64_t> head = container_head_bytes(text_at(fd.get(), 0, 12), file_bytes);
  if (!head) return cannot_read(path, head.error().code, head.error().message);
  Result<Container> container = parse_container(text_at(fd.get(), 0, *head), file_bytes);
  if (!container) return cannot_read(path, container.error().code, container.error().message);
  return container;
}

}  // namespace sonde
