// Converts one tensor of a file: chooses its format and its name, and writes it.
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "ask/convert/conversion.h"
#include "ask/convert/converted_names.h"
#include "dump/formats/cann_types.h"
#include "dump/formats/npy.h"
#include "dump/formats/npy_reader.h"
#include "dump/formats/pt_file.h"
#include "ground/files/files.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

// NumPy's word for the type, as in names of plain bytes; a tensor that was bfloat16 keeps that name.
std::string_view dtype_word(DType dtype) {
  if (dtype == DType::bfloat16) return "bfloat16";
  for (const DTypeInfo& row : all_dtypes()) {
    if (row.npy == info(dtype).npy && row.npy.size() > 0 && row.file_bytes == row.item_bytes) return row.lower;
  }
  return info(dtype).lower;
}

}  // namespace

std::string format_text(Format format) {
  const std::string_view name = name_of(format);
  return name.empty() ? std::to_string(static_cast<unsigned>(format)) : std::string(name);
}

// --- formats ---------------------------------------------------------------------------------------------------------

// FRACTAL_NZ does not describe its padding: a shape is trusted only if it leaves no block empty.
void TensorConversion::check_nz(const StoredTensor& tensor, const Shape& wanted) const {
  const auto refuse = [&] {
    throw Lost{ConvertFault::wrong_shape, fmt::format("FRACTAL_NZ {} cannot be {}", shape_text(tensor.shape, '(', ')'),
                                                      shape_text(wanted, '(', ')'))};
  };
  const std::size_t rank = tensor.shape.size();
  if (rank < 4) refuse();
  const auto size = [&](std::size_t from_end) { return tensor.shape[rank - from_end]; };
  Shape padded(tensor.shape.begin(), tensor.shape.end() - 4);
  padded.insert(padded.end(), {size(3) * size(2), size(4) * size(1)});
  Shape shape = wanted;
  if (shape.size() == 1) shape.insert(shape.begin(), 1);
  if (shape.size() != padded.size()) refuse();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    const std::size_t from_end = shape.size() - i;
    const std::int64_t block = from_end == 1 ? size(1) : from_end == 2 ? size(2) : 1;
    if (shape[i] > padded[i] || shape[i] <= padded[i] - std::max<std::int64_t>(block, 16 * (from_end <= 2))) refuse();
  }
}

std::optional<LogicalShape> TensorConversion::real_shape(const StoredTensor& tensor) {
  const Format to = *spec_.format;
  if (!spec_.shape.empty()) {
    if (is_blocked(to)) return std::nullopt;
    return LogicalShape{tensor.format == Format::fractal_nz ? Format::nd : to, spec_.shape};
  }
  if (tensor.original_shape.empty()) return std::nullopt;
  auto real = find_order({tensor.format, tensor.shape, tensor.groups}, tensor.original_shape, tensor.original_format);
  if (!real) {
    note(tensor.what(), fmt::format("the original shape {} does not fit {} {}: the padding stays",
                                    shape_text(tensor.original_shape, '(', ')'), format_text(tensor.format),
                                    shape_text(tensor.shape, '(', ')')));
  }
  return real;
}

ConvertTarget TensorConversion::target(const StoredTensor& tensor) {
  if (!spec_.format) return {tensor.shape, tensor.format, false, std::nullopt};
  const Format to = *spec_.format;
  const bool is_image = tensor.format == Format::nchw || tensor.format == Format::nhwc || tensor.format == Format::hwcn;
  const Format from = is_image && tensor.shape.size() != 4 ? Format::nd : tensor.format;
  const Shape& wanted = spec_.shape.empty() ? tensor.original_shape : spec_.shape;
  if (from == Format::fractal_nz && (spec_.is_strict || !wanted.empty())) check_nz(tensor, wanted);
  if (from == to) return {tensor.shape, to, true, std::nullopt};
  // A bias lies the same in every order of axes.
  if (from == Format::nd && tensor.shape.size() <= 1 && !is_blocked(to)) return {tensor.shape, to, true, std::nullopt};
  const bool is_rule = can_reformat(from, to) && !(spec_.is_strict && to == Format::nd && !is_blocked(from));
  if (!is_rule) {
    if (!spec_.is_strict && !is_blocked(from)) {
      note(tensor.what(), fmt::format("{} has no axes to put into the order of {}: it stays unchanged",
                                      format_text(from), format_text(to)));
      return {tensor.shape, tensor.format, false, std::nullopt};
    }
    throw Lost{ConvertFault::no_rule, fmt::format("no rule turns {} into {}", format_text(from), format_text(to))};
  }
  StoredTensor source = tensor;
  source.format = from;
  const StoredShape stored{from, tensor.shape, tensor.groups};
  const std::optional<LogicalShape> real = real_shape(source);
  Result<Reformat> plan = plan_reformat(stored, to, real);
  if (!plan && real && plan.error().code == ErrorCode::invalid_argument) {
    if (Result<Reformat> padded = plan_reformat(stored, to)) {  // nothing is lost by padding
      note(tensor.what(), plan.error().message + ": the padding stays");
      plan = std::move(padded);
    }
  }
  if (!plan) {
    const bool no_rule = plan.error().code == ErrorCode::unsupported;
    throw Lost{no_rule ? ConvertFault::no_rule : ConvertFault::conversion, plan.error().message};
  }
  ConvertTarget target{plan->shape(), to, true, std::nullopt};
  target.plan = std::move(*plan);
  return target;
}

void TensorConversion::convert_custom(const StoredTensor& tensor) {
  CustomConversions& custom = *spec_.custom;
  CustomConversions::Request request{tensor.format, *spec_.format,
                                     tensor.shape,  spec_.shape.empty() ? tensor.original_shape : spec_.shape,
                                     tensor.groups, custom.scratch_file()};
  const auto stream = ElementStream::make(tensor.data, tensor.data_type, tensor.elements, tensor.count);
  if (!stream) throw Lost{ConvertFault::conversion, stream.error().message};
  std::error_code ignored;
  const std::string header = npy_header(stream->dtype(), Shape{tensor.count}, false);
  {
    const Fd file(::open(request.elements.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kOpenMode));
    int error_number = file ? write_all(file.get(), header.data(), header.size()) : errno;
    if (error_number == 0) error_number = stream->write(file.get(), header.size(), spec_.threads);
    if (error_number != 0) {
      throw Lost{ConvertFault::cannot_write, io_error("write", request.elements, error_number).message};
    }
  }
  const Result<fs::path> made = custom.run(request);
  fs::remove(request.elements, ignored);
  if (!made) throw Lost{ConvertFault::conversion, made.error().message};
  const Result<NpyFile> npy = NpyFile::open(*made);
  fs::remove(*made, ignored);  // the mapping keeps its bytes
  if (!npy) throw Lost{ConvertFault::conversion, "the result of the custom script: " + npy.error().message};
  const TensorView view = npy->view();
  std::vector<std::byte> copy(view.is_c_contiguous() ? 0 : view.bytes());
  if (!copy.empty()) copy_c_order(view, copy.data());
  StoredTensor result = tensor;
  result.data_type = kCannUndefined;
  result.elements = {view.dtype, static_cast<std::uint8_t>(info(view.dtype).item_bytes * 8), false};
  result.data = copy.empty() ? view.data : copy.data();
  result.shape.assign(view.shape.begin(), view.shape.end());
  result.count = view.elements();
  ConvertTarget target{result.shape, *spec_.format, true, std::nullopt};
  // The result of a user's script is cropped as the original does it, except for blocked formats.
  if (!request.to_shape.empty() && !is_blocked(*spec_.format)) {
    if (Result<Reformat> crop = plan_crop(result.shape, request.to_shape)) {
      target.shape = crop->shape();
      target.plan = std::move(*crop);
    } else {
      note(tensor.what(), crop.error().message);
    }
  }
  write(result, target);
}

// --- files -----------------------------------------------------------------------------------------------------------

void TensorConversion::convert(const StoredTensor& tensor) {
  if (spec_.format && spec_.custom != nullptr && spec_.custom->has(tensor.format, *spec_.format)) {
    return convert_custom(tensor);
  }
  ConvertTarget made;
  try {
    made = target(tensor);
  } catch (const Lost&) {
    // Under MindSpore's names a tensor that cannot be converted is written unchanged, and still counts as lost.
    if (spec_.type == ConvertedType::msnpy) write(tensor, {tensor.shape, tensor.format, false, std::nullopt});
    throw;
  }
  write(tensor, made);
}

std::string_view TensorConversion::suffix() const {
  switch (spec_.type) {
    case ConvertedType::bin:
      return ".bin";
    case ConvertedType::pt:
      return ".pt";
    default:
      return ".npy";
  }
}

std::string TensorConversion::parameter(const StoredTensor& tensor, const ConvertTarget& target) const {
  const std::string_view side = tensor.is_input ? "input" : "output";
  if (spec_.type == ConvertedType::msnpy) {
    std::string base = base_;
    if (std::ranges::count(name_, '.') == 4 && !op_name_.empty()) {
      const std::size_t first = name_.find('.'), second = name_.find('.', first + 1);
      base = name_.substr(0, first + 1) + op_name_.substr(op_name_.rfind('/') + 1) + name_.substr(second);
    }
    return fmt::format("{}.{}.{}.{}.npy", base, side, tensor.slot, format_text(target.format));
  }
  const std::string base = fmt::format("{}.{}.{}", base_, side, tensor.slot);
  if (spec_.type == ConvertedType::bin) {
    const std::string sizes =
        target.is_converted ? fmt::format("{}", fmt::join(target.shape, "_")) : std::to_string(tensor.count);
    return fmt::format("{}.{}.{}.{}.bin", base, sizes, dtype_word(tensor.elements.dtype), format_text(target.format));
  }
  if (!target.is_converted) return base + std::string(suffix());
  return fmt::format("{}.{}{}", base, fmt::join(target.shape, "x"), suffix());
}

void TensorConversion::write(const StoredTensor& tensor, const ConvertTarget& target) {
  const auto stream = ElementStream::make(tensor.data, tensor.data_type, tensor.elements, tensor.count, target.plan);
  if (!stream) throw Lost{ConvertFault::conversion, stream.error().message};
  std::string name = parameter(tensor, target);
  std::ranges::replace(name, '/', '_');
  write_elements(name, *stream, target.shape);
}

void TensorConversion::write_elements(const std::string& name, const ElementStream& stream, const Shape& shape) {
  const fs::path path = directory_ / fitting_name(directory_, name, suffix());
  std::string head;
  PtFrame frame;
  if (spec_.type == ConvertedType::pt) {
    frame = pt_frame(stream.dtype(), shape, stream.bytes());
    head = frame.head;
  } else if (spec_.type != ConvertedType::bin) {
    head = numpy_header(stream.dtype(), shape);
  }
  if (head.empty() && spec_.type != ConvertedType::bin) {
    throw Lost{ConvertFault::unknown_type, fmt::format("a file has no form for {}", info(stream.dtype()).lower)};
  }
  std::error_code ignored;
  fs::remove(path, ignored);
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kOpenMode));
  int error_number = file ? 0 : errno;
  if (error_number == 0 && spec_.type == ConvertedType::pt) {
    std::uint32_t crc = 0;
    error_number = stream.write(file.get(), head.size(), 1, &crc);
    finish_pt(frame, crc);
    head = frame.head;
    const auto end = static_cast<off_t>(head.size() + stream.bytes());
    if (error_number == 0 && ::lseek(file.get(), end, SEEK_SET) < 0) error_number = errno;
    if (error_number == 0) error_number = write_all(file.get(), frame.tail.data(), frame.tail.size());
    if (error_number == 0 && ::lseek(file.get(), 0, SEEK_SET) < 0) error_number = errno;
  } else if (error_number == 0) {
    error_number = stream.write(file.get(), head.size(), spec_.threads);
  }
  if (error_number == 0) error_number = write_all(file.get(), head.data(), head.size());
  if (error_number == 0) {
    done_.written.push_back({path, stream.bytes()});
    return;
  }
  if (file) fs::remove(path, ignored);  // half a file would be taken for a whole one
  throw Lost{ConvertFault::cannot_write, io_error("write", path, error_number).message};
}

void TensorConversion::write_bytes(const std::string& name, std::string_view suffix, std::string_view bytes) {
  const fs::path path = directory_ / fitting_name(directory_, name, suffix);
  std::error_code ignored;
  fs::remove(path, ignored);
  const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kOpenMode));
  const int error_number = file ? write_all(file.get(), bytes.data(), bytes.size()) : errno;
  if (error_number == 0) {
    done_.written.push_back({path, bytes.size()});
    return;
  }
  if (file) fs::remove(path, ignored);
  throw Lost{ConvertFault::cannot_write, io_error("write", path, error_number).message};
}

}  // namespace sonde
