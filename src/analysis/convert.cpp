#include "analysis/convert.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <string_view>

#include "store/files.h"
#include "store/npy.h"
#include "store/tensor_file.h"

namespace sonde {
namespace {

constexpr std::size_t kPieceElements = 1 << 16;  // widened at a time

// `bytes`: the elements in C order.
int write_widened(int fd, DType dtype, const std::byte* bytes, std::size_t elements) {
  const std::size_t from = info(dtype).item_bytes, to = info(dtype).file_bytes;
  std::vector<std::byte> piece(std::min(elements, kPieceElements) * to);
  for (std::size_t done = 0; done < elements; done += kPieceElements) {
    const std::size_t count = std::min(kPieceElements, elements - done);
    widen_for_npy(dtype, bytes + done * from, count, piece.data());
    if (const int error_number = write_all(fd, piece.data(), count * to); error_number != 0) return error_number;
  }
  return 0;
}

int write_elements(int fd, const TensorView& view) {
  std::vector<std::byte> copy;
  if (!view.is_c_contiguous()) {
    copy.resize(view.bytes());
    copy_c_order(view, copy.data());
  }
  const std::byte* bytes = copy.empty() ? view.data : copy.data();
  if (!npy_needs_widening(view.dtype, false)) return write_all(fd, bytes, view.bytes());
  return write_widened(fd, view.dtype, bytes, static_cast<std::size_t>(view.elements()));
}

Result<ConvertedFile> write_npy(const TensorFile& tensor, const std::filesystem::path& path) {
  const TensorView view = tensor.view();
  const std::string header = npy_header(view.dtype, view.shape, false);
  if (header.empty()) {
    return Error{ErrorCode::unsupported,
                 fmt::format("cannot write '{}': .npy has no form for {}", path.string(), info(view.dtype).lower)};
  }
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kOpenMode));
  int error_number = file ? write_all(file.get(), header.data(), header.size()) : errno;
  if (error_number == 0) error_number = write_elements(file.get(), view);
  if (error_number == 0) return ConvertedFile{path, view.bytes()};
  if (file) std::filesystem::remove(path, ignored);  // half a file would be taken for a whole one
  return io_error("write", path, error_number);
}

Result<std::vector<ConvertedFile>> convert_raw(const std::filesystem::path& file,
                                               const std::filesystem::path& directory) {
  const Result<TensorFile> tensor = TensorFile::open(file);
  if (!tensor) return tensor.error();
  Result<ConvertedFile> written = write_npy(*tensor, directory / (file.stem().string() + ".npy"));
  if (!written) return written.error();
  return std::vector<ConvertedFile>{std::move(*written)};
}

Status convert_side(const std::filesystem::path& file, const std::filesystem::path& directory, bool is_input,
                    const std::vector<ContainerTensor>& tensors, std::vector<ConvertedFile>& done) {
  for (std::uint32_t slot = 0; slot < tensors.size(); ++slot) {
    if (tensors[slot].bytes == 0) continue;
    TensorWish wish;
    wish.is_input = is_input;
    wish.slot = slot;
    const Result<TensorFile> tensor = TensorFile::open(file, wish);
    if (!tensor) return tensor.error();
    const std::string name = fmt::format("{}.{}.{}.npy", file.filename().string(), is_input ? "input" : "output", slot);
    Result<ConvertedFile> written = write_npy(*tensor, directory / name);
    if (!written) return written.error();
    done.push_back(std::move(*written));
  }
  return {};
}

}  // namespace

Result<std::vector<ConvertedFile>> convert_file(const std::filesystem::path& file,
                                                const std::filesystem::path& directory) {
  const bool is_raw = file.extension() == ".bin";
  const Result<Container> container = is_raw ? Result<Container>(Container()) : read_container(file);
  if (!container) return container.error();
  if (Status made = make_directories(directory); !made) return made.error();
  if (is_raw) return convert_raw(file, directory);
  std::vector<ConvertedFile> done;
  if (Status status = convert_side(file, directory, true, container->inputs, done); !status) return status.error();
  if (Status status = convert_side(file, directory, false, container->outputs, done); !status) return status.error();
  return done;
}

}  // namespace sonde
