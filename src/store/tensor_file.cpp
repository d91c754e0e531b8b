#include "store/tensor_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>

#include "store/cann_elements.h"
#include "store/cann_types.h"
#include "store/file_names.h"
#include "store/files.h"

namespace sonde {
namespace {

constexpr std::uint64_t kMostBytes = std::numeric_limits<std::int64_t>::max();

// False when the product leaves the range of a file's size.
bool bytes_of(const std::vector<std::int64_t>& shape, std::uint64_t item_bytes, std::uint64_t& bytes) {
  bytes = item_bytes;
  if (std::ranges::find(shape, 0) != shape.end()) bytes = 0;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && bytes > kMostBytes / static_cast<std::uint64_t>(size))) return false;
    bytes *= static_cast<std::uint64_t>(size);
  }
  return true;
}

std::string slot_name(const TensorWish& wish) {
  return fmt::format("{}.{}", wish.is_input ? "input" : "output", wish.slot);
}

std::string read_start(int fd, std::size_t bytes) {
  std::string start(bytes, '\0');
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = ::pread(fd, start.data() + got, bytes - got, static_cast<off_t>(got));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    got += static_cast<std::size_t>(n);
  }
  start.resize(got);
  return start;
}

}  // namespace

bool is_container_name(std::string_view name) { return !name.ends_with(".npy") && !name.ends_with(".bin"); }

Result<TensorFile> TensorFile::open(const std::filesystem::path& path, const TensorWish& wish) {
  const std::string name = path.filename();
  if (is_container_name(name)) return open_container(path, wish);
  if (name.ends_with(".bin")) return open_raw(path, wish);
  Result<NpyFile> npy = NpyFile::open(path);
  if (!npy) return npy.error();
  TensorFile file;
  file.dtype_ = npy->header().dtype;
  file.shape_ = npy->header().shape;
  file.npy_ = std::move(*npy);
  return file;
}

Result<TensorFile> TensorFile::open_raw(const std::filesystem::path& path, const TensorWish& wish) {
  TensorFile file;
  TensorFileName parts;
  const std::string own = path.filename();
  const bool named = parse_tensor_file_name(wish.name.empty() ? std::string_view(own) : wish.name, parts);
  file.dtype_ = wish.dtype != DType::undefined || !named ? wish.dtype : dtype_from_name(parts.dtype);
  if (file.dtype_ == DType::undefined || (!wish.shape && !named)) {
    return cannot_read(path, ErrorCode::unsupported,
                       "a file without a header, and its name does not say type and shape; expected "
                       "NAME_output_0_shape_2_3_Float32_DefaultFormat.bin");
  }
  file.shape_ = wish.shape ? *wish.shape : parts.shape;
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  file.mapped_ = std::move(*mapped);
  std::uint64_t bytes = 0;
  if (!bytes_of(file.shape_, info(file.dtype_).item_bytes, bytes) || bytes != file.mapped_.bytes()) {
    return cannot_read(path, ErrorCode::corrupt,
                       fmt::format("it has {} bytes; {} of {} take {}", file.mapped_.bytes(),
                                   shape_text(file.shape_, '(', ')'), info(file.dtype_).lower, bytes));
  }
  if (Status laid = file.lay(0); !laid) return cannot_read(path, laid.error().code, laid.error().message);
  return file;
}

Result<TensorFile> TensorFile::open_container(const std::filesystem::path& path, const TensorWish& wish) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  TensorFile file;
  file.mapped_ = std::move(*mapped);
  const Result<Container> container = parse_container(file.mapped_.text(), file.mapped_.bytes());
  if (!container) return cannot_read(path, container.error().code, container.error().message);
  const std::vector<ContainerTensor>& side = wish.is_input ? container->inputs : container->outputs;
  if (wish.slot >= side.size()) {
    return cannot_read(path, ErrorCode::not_found,
                       fmt::format("no {}: it holds {} inputs and {} outputs", slot_name(wish),
                                   container->inputs.size(), container->outputs.size()));
  }
  if (Status taken = file.take(side[wish.slot], wish); !taken) {
    return cannot_read(path, taken.error().code, slot_name(wish) + ": " + taken.error().message);
  }
  return file;
}

Status TensorFile::take(const ContainerTensor& tensor, const TensorWish& wish) {
  dtype_ = dtype_of_cann(tensor.data_type);
  // CANN has no number for some types, but who wrote it says what it is.
  const bool is_ours = tensor.data_type == kCannUndefined && tensor.bytes > 0 && wish.dtype != DType::undefined &&
                       cann_type(wish.dtype) == kCannUndefined;
  if (is_ours) dtype_ = wish.dtype;
  if (tensor.data_type == kCannUndefined && !is_ours) {
    dtype_ = DType::int8;
    shape_ = {static_cast<std::int64_t>(tensor.bytes)};
    return lay(tensor.offset);
  }
  const std::optional<CannElements> elements = cann_elements(tensor.data_type);
  if (dtype_ == DType::undefined && elements) dtype_ = elements->dtype;
  if (dtype_ == DType::undefined) {
    return Error{ErrorCode::unsupported,
                 fmt::format("elements of {} are no numbers", cann_type_name(tensor.data_type))};
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

void TensorFile::lay_strides() {
  strides_.assign(shape_.size(), 1);
  for (std::size_t d = shape_.size(); d-- > 1;) strides_[d - 1] = strides_[d] * std::max<std::int64_t>(shape_[d], 1);
}

// Elements that are less than a byte, or that no processor computes with.
Status TensorFile::decode(const ContainerTensor& tensor, std::uint64_t count) {
  lay_strides();
  try {
    copy_.resize(count * info(dtype_).item_bytes);
  } catch (const std::exception&) {  // length_error, bad_alloc
    return Error{ErrorCode::io, fmt::format("not enough memory for {} elements", count)};
  }
  decode_cann(tensor.data_type, mapped_.data() + tensor.offset, 0, count, copy_.data());
  data_ = copy_.data();
  return {};
}

// The elements are those from `offset` on, in C order; that they lie inside the file is known.
Status TensorFile::lay(std::uint64_t offset) {
  lay_strides();
  data_ = mapped_.data() + offset;
  const std::size_t item = info(dtype_).item_bytes;
  if (reinterpret_cast<std::uintptr_t>(data_) % item == 0) return {};
  std::uint64_t bytes = 0;
  bytes_of(shape_, item, bytes);
  try {
    copy_.assign(data_, data_ + bytes);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::io, fmt::format("not enough memory for {} bytes", bytes)};
  }
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
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd) return cannot_read(path, errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, std::strerror(errno));
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return cannot_read(path, ErrorCode::io, "not a regular file");
  }
  const auto file_bytes = static_cast<std::uint64_t>(status.st_size);
  const Result<std::uint64_t> head = container_head_bytes(read_start(fd.get(), 12), file_bytes);
  if (!head) return cannot_read(path, head.error().code, head.error().message);
  Result<Container> container = parse_container(read_start(fd.get(), *head), file_bytes);
  if (!container) return cannot_read(path, container.error().code, container.error().message);
  return container;
}

}  // namespace sonde
