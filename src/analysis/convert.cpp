#include "analysis/convert.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <string_view>
#include <utility>

#include "analysis/converted_names.h"
#include "analysis/element_stream.h"
#include "analysis/overflow_json.h"
#include "analysis/thread_slices.h"
#include "store/cann_types.h"
#include "store/files.h"
#include "store/npy.h"
#include "store/npy_reader.h"
#include "store/pt_file.h"
#include "store/tensor_file.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / 64;

// Thrown inside this file: what one tensor is lost by.
struct Lost {
  ConvertFault fault;
  std::string message;
};

std::string format_text(Format format) {
  const std::string_view name = name_of(format);
  return name.empty() ? std::to_string(static_cast<unsigned>(format)) : std::string(name);
}

Format format_of(std::int32_t number) {
  // The device's word has the sub-format and C0 above the eight bits of the format.
  return static_cast<Format>(static_cast<std::uint32_t>(number) & 0xFF);
}

// Of the elements; throws when there are more than memory has addresses.
std::int64_t count_of(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (size == 0) return 0;
  }
  for (const std::int64_t size : shape) {
    if (size < 0 || count > kMostElements / size) {
      throw Lost{ConvertFault::damaged,
                 fmt::format("shape {} has more elements than a file can have", shape_text(shape, '(', ')'))};
    }
    count *= size;
  }
  return count;
}

Shape signed_shape(const std::vector<std::uint64_t>& sizes) {
  Shape shape;
  for (const std::uint64_t size : sizes) {
    shape.push_back(size > static_cast<std::uint64_t>(kMostElements) ? -1 : static_cast<std::int64_t>(size));
  }
  return shape;
}

// One tensor as it lies in its file.
struct Stored {
  bool is_input = false;
  std::uint32_t slot = 0;
  std::int32_t data_type = 0;
  CannElements elements;
  Format format = Format::nd;
  Shape shape, original_shape;
  std::optional<Format> original_format;
  std::int64_t groups = 1;
  const std::byte* data = nullptr;
  std::int64_t count = 0;

  std::string what() const { return fmt::format("{}.{}", is_input ? "input" : "output", slot); }
};

// What becomes of it.
struct Target {
  Shape shape;
  Format format = Format::nd;
  bool is_converted = false;  // a format was asked for: the name tells the shape
  std::optional<Reformat> plan;
};

class Conversion {
 public:
  Conversion(const fs::path& file, const fs::path& directory, const ConvertWish& wish, Converted& done)
      : file_(file),
        directory_(directory),
        base_(file.filename()),
        name_(wish.name.empty() ? base_ : wish.name),
        wish_(wish),
        done_(done) {}

  void container();
  void npy();
  void raw();

 private:
  void side(const Container& container, bool is_input, const std::optional<ThreadSlices>& slices);
  void overflow(const Container& container);
  void extras(const Container& container);
  std::optional<ThreadSlices> slices_of(const Container& container);
  bool is_wanted(bool is_input, std::uint32_t slot) const;
  void check_slots(const Container& container);
  Stored stored(const ContainerTensor& tensor, bool is_input, std::uint32_t slot, const Shape* slice) const;
  Target target(const Stored& tensor);
  void check_nz(const Stored& tensor, const Shape& wanted) const;
  std::optional<LogicalShape> real_shape(const Stored& tensor);
  void convert(const Stored& tensor);
  void convert_custom(const Stored& tensor);
  void write(const Stored& tensor, const Target& target);
  std::string tensor_name(const Stored& tensor, const Target& target) const;
  std::string_view suffix() const;
  void write_elements(const std::string& name, const ElementStream& stream, const Shape& shape);
  void write_bytes(const std::string& name, std::string_view suffix, std::string_view bytes);
  template <typename Body>
  void guarded(const std::string& what, const Body& body);
  void lose(ConvertFault fault, std::string what, const std::string& message);
  void note(const std::string& what, const std::string& text) {
    done_.notes.push_back(fmt::format("'{}': {}: {}", file_.string(), what, text));
  }

  const fs::path& file_;
  const fs::path& directory_;
  const std::string base_, name_;
  const ConvertWish& wish_;
  Converted& done_;
  MappedFile mapped_;
  std::string op_name_;
};

void Conversion::lose(ConvertFault fault, std::string what, const std::string& message) {
  std::string text = what.empty() ? message : fmt::format("cannot convert '{}': {}: {}", file_.string(), what, message);
  done_.lost.push_back({fault, std::move(what), std::move(text)});
}

// What goes wrong with one tensor is told, and the next one is looked at.
template <typename Body>
void Conversion::guarded(const std::string& what, const Body& body) {
  try {
    body();
  } catch (const Lost& lost) {
    lose(lost.fault, what, lost.message);
  } catch (const std::bad_alloc&) {
    lose(ConvertFault::conversion, what, "not enough memory");
  }
}

// --- what a file holds -----------------------------------------------------------------------------------------------

void Conversion::container() {
  Result<MappedFile> mapped = MappedFile::open(file_);
  if (!mapped) {
    const ConvertFault fault =
        mapped.error().code == ErrorCode::corrupt ? ConvertFault::damaged : ConvertFault::unreadable;
    return lose(fault, "", mapped.error().message);
  }
  mapped_ = std::move(*mapped);
  const Result<Container> container = parse_container(mapped_.text(), mapped_.bytes(), true);
  if (!container) {
    return lose(ConvertFault::damaged, "", cannot_read(file_, ErrorCode::corrupt, container.error().message).message);
  }
  op_name_ = container->op_name;
  if (container->is_nano && container->total_bytes != mapped_.bytes()) {
    lose(ConvertFault::size_mismatch, "",
         cannot_read(
             file_, ErrorCode::corrupt,
             fmt::format("it has {} bytes; its header and tensors take {}", mapped_.bytes(), container->total_bytes))
             .message);
  } else if (!container->cut.empty()) {
    lose(ConvertFault::damaged, "", cannot_read(file_, ErrorCode::corrupt, container->cut).message);
  }
  check_slots(*container);
  if (is_overflow_file(name_) && !wish_.format) return overflow(*container);
  std::optional<ThreadSlices> slices;
  try {
    slices = slices_of(*container);
  } catch (const Lost& lost) {
    return lose(lost.fault, "", cannot_read(file_, ErrorCode::corrupt, lost.message).message);
  }
  side(*container, true, slices);
  side(*container, false, slices);
  if (!wish_.format) extras(*container);
}

std::optional<ThreadSlices> Conversion::slices_of(const Container& container) {
  if (container.attributes.empty() || wish_.format) return std::nullopt;
  Result<std::optional<ThreadSlices>> slices = thread_slices(container.attributes[0].second, thread_of_name(name_));
  if (!slices) {
    const bool is_name = slices.error().code == ErrorCode::invalid_argument;
    throw Lost{is_name ? ConvertFault::bad_name : ConvertFault::slices_mismatch, slices.error().message};
  }
  if (*slices &&
      ((*slices)->inputs.size() != container.inputs.size() || (*slices)->outputs.size() != container.outputs.size())) {
    throw Lost{
        ConvertFault::slices_mismatch,
        fmt::format("it holds {} inputs and {} outputs; its attribute has slices of {} and {}", container.inputs.size(),
                    container.outputs.size(), (*slices)->inputs.size(), (*slices)->outputs.size())};
  }
  return std::move(*slices);
}

bool Conversion::is_wanted(bool is_input, std::uint32_t slot) const {
  if (!wish_.input && !wish_.output) return true;
  return (is_input ? wish_.input : wish_.output) == slot;
}

void Conversion::check_slots(const Container& container) {
  const auto check = [&](const std::optional<std::uint32_t>& wanted, std::size_t count, std::string_view side) {
    if (!wanted || *wanted < count) return;
    lose(ConvertFault::not_in_file, fmt::format("{}.{}", side, *wanted),
         fmt::format("there is none: the file has {} {}s", count, side));
  };
  check(wish_.input, container.inputs.size(), "input");
  check(wish_.output, container.outputs.size(), "output");
}

void Conversion::side(const Container& container, bool is_input, const std::optional<ThreadSlices>& slices) {
  const std::vector<ContainerTensor>& tensors = is_input ? container.inputs : container.outputs;
  for (std::uint32_t slot = 0; slot < tensors.size(); ++slot) {
    const ContainerTensor& tensor = tensors[slot];
    const bool is_placeholder = tensor.data_type == kCannUndefined && tensor.bytes == 0;
    if (!is_wanted(is_input, slot) || (is_placeholder && !tensor.is_cut && !wish_.is_strict)) continue;
    const Shape* slice = slices ? &(is_input ? slices->inputs : slices->outputs)[slot] : nullptr;
    const std::string what = fmt::format("{}.{}", is_input ? "input" : "output", slot);
    if (tensor.is_cut) {
      lose(ConvertFault::damaged, what, "the file ends before it does");
    } else {
      guarded(what, [&] { convert(stored(tensor, is_input, slot, slice)); });
    }
  }
}

// The place and the size of one tensor's elements, checked against its bytes.
Stored Conversion::stored(const ContainerTensor& tensor, bool is_input, std::uint32_t slot, const Shape* slice) const {
  Stored out;
  out.is_input = is_input;
  out.slot = slot;
  out.data_type = tensor.data_type;
  out.format = format_of(tensor.format);
  out.groups = std::max(tensor.sub_format, 1);
  out.original_shape = signed_shape(tensor.original_shape);
  if (tensor.original) out.original_format = format_of(tensor.original->format);
  const std::optional<CannElements> elements = cann_elements(tensor.data_type);
  if (!elements) {
    throw Lost{ConvertFault::unknown_type,
               fmt::format("elements of {} are no numbers", cann_type_name(tensor.data_type))};
  }
  out.elements = *elements;
  out.shape = slice != nullptr                     ? *slice
              : tensor.data_type == kCannUndefined ? Shape{static_cast<std::int64_t>(tensor.bytes)}
                                                   : signed_shape(tensor.shape);
  if (out.shape.empty()) out.shape = {1};
  out.count = count_of(out.shape);
  const std::uint64_t needed = elements->bytes(static_cast<std::uint64_t>(out.count));
  if (needed > tensor.bytes) {
    throw Lost{ConvertFault::damaged, fmt::format("{} of {} take {} bytes; it has {}", shape_text(out.shape, '(', ')'),
                                                  cann_type_name(tensor.data_type), needed, tensor.bytes)};
  }
  out.data = mapped_.data() + tensor.offset;
  return out;
}

void Conversion::overflow(const Container& container) {
  for (std::uint32_t slot = 0; slot < container.outputs.size(); ++slot) {
    const ContainerTensor& tensor = container.outputs[slot];
    if (tensor.is_cut) continue;
    guarded(fmt::format("output.{}", slot), [&] {
      const Result<OverflowRecord> record = read_overflow_record({mapped_.data() + tensor.offset, tensor.bytes});
      if (!record) {
        const bool is_unknown = record.error().code == ErrorCode::unsupported;
        throw Lost{is_unknown ? ConvertFault::not_a_record : ConvertFault::damaged, record.error().message};
      }
      write_bytes(fmt::format("{}.output.{}.json", base_, slot), ".json", record->json);
    });
  }
}

void Conversion::extras(const Container& container) {
  const auto write_all_of = [&](const std::vector<ContainerBytes>& list, std::string_view what) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const ContainerBytes& extra = list[i];
      if (extra.is_cut) {
        lose(ConvertFault::damaged, fmt::format("{}.{}", what, i), "the file ends before it does");
        continue;
      }
      guarded(fmt::format("{}.{}", what, i), [&] {
        write_bytes(fmt::format("{}.{}.{}.bin", base_, what, i), ".bin",
                    mapped_.text().substr(extra.offset, extra.bytes));
      });
    }
  };
  write_all_of(container.buffers, "l1buffer");
  write_all_of(container.spaces, "space");
}

void Conversion::npy() {
  const Result<NpyFile> npy = NpyFile::open(file_);
  if (!npy) {
    const ConvertFault fault =
        npy.error().code == ErrorCode::unsupported ? ConvertFault::unknown_type : ConvertFault::damaged;
    return lose(npy.error().code == ErrorCode::io ? ConvertFault::unreadable : fault, "", npy.error().message);
  }
  guarded("output.0", [&] {
    const TensorView view = npy->view();
    std::vector<std::byte> copy;
    if (!view.is_c_contiguous()) {
      copy.resize(view.bytes());
      copy_c_order(view, copy.data());
    }
    Stored tensor;
    tensor.data_type = cann_type(view.dtype);
    tensor.elements = {view.dtype, static_cast<std::uint8_t>(info(view.dtype).item_bytes * 8), false};
    tensor.shape.assign(view.shape.begin(), view.shape.end());
    tensor.count = view.elements();
    tensor.data = copy.empty() ? view.data : copy.data();
    convert(tensor);
  });
}

// A file without a header of MindSpore 1.2: its name says what it is, and keeps saying so.
void Conversion::raw() {
  const Result<TensorFile> tensor = TensorFile::open(file_, {.name = wish_.name});
  if (!tensor) {
    const bool is_io = tensor.error().code == ErrorCode::io || tensor.error().code == ErrorCode::not_found;
    return lose(is_io ? ConvertFault::unreadable : ConvertFault::damaged, "", tensor.error().message);
  }
  guarded("output.0", [&] {
    const TensorView view = tensor->view();
    const CannElements elements = {view.dtype, static_cast<std::uint8_t>(info(view.dtype).item_bytes * 8), false};
    const auto stream = ElementStream::make(view.data, kCannUndefined, elements, view.elements());
    if (!stream) throw Lost{ConvertFault::conversion, stream.error().message};
    write_elements(fs::path(base_).stem().string() + std::string(suffix()), *stream, tensor->shape());
  });
}

// --- formats ---------------------------------------------------------------------------------------------------------

// FRACTAL_NZ says nothing of its padding: a shape that is to be believed must leave no block empty.
void Conversion::check_nz(const Stored& tensor, const Shape& wanted) const {
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

std::optional<LogicalShape> Conversion::real_shape(const Stored& tensor) {
  const Format to = *wish_.format;
  if (!wish_.shape.empty()) {
    if (is_blocked(to)) return std::nullopt;
    return LogicalShape{tensor.format == Format::fractal_nz ? Format::nd : to, wish_.shape};
  }
  if (tensor.original_shape.empty()) return std::nullopt;
  auto real = find_order({tensor.format, tensor.shape, tensor.groups}, tensor.original_shape, tensor.original_format);
  if (!real) {
    note(tensor.what(), fmt::format("the original shape {} is none of {} {}: the padding stays",
                                    shape_text(tensor.original_shape, '(', ')'), format_text(tensor.format),
                                    shape_text(tensor.shape, '(', ')')));
  }
  return real;
}

Target Conversion::target(const Stored& tensor) {
  if (!wish_.format) return {tensor.shape, tensor.format, false, std::nullopt};
  const Format to = *wish_.format;
  const bool is_image = tensor.format == Format::nchw || tensor.format == Format::nhwc || tensor.format == Format::hwcn;
  const Format from = is_image && tensor.shape.size() != 4 ? Format::nd : tensor.format;
  const Shape& wanted = wish_.shape.empty() ? tensor.original_shape : wish_.shape;
  if (from == Format::fractal_nz && (wish_.is_strict || !wanted.empty())) check_nz(tensor, wanted);
  if (from == to) return {tensor.shape, to, true, std::nullopt};
  const bool is_rule = can_reformat(from, to) && !(wish_.is_strict && to == Format::nd && !is_blocked(from));
  if (!is_rule) {
    if (!wish_.is_strict && !is_blocked(from)) {
      note(tensor.what(), fmt::format("{} has no axes to put into the order of {}: it stays as it is",
                                      format_text(from), format_text(to)));
      return {tensor.shape, tensor.format, false, std::nullopt};
    }
    throw Lost{ConvertFault::no_rule, fmt::format("no rule turns {} into {}", format_text(from), format_text(to))};
  }
  Stored source = tensor;
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
  Target target{plan->shape(), to, true, std::nullopt};
  target.plan = std::move(*plan);
  return target;
}

void Conversion::convert_custom(const Stored& tensor) {
  CustomConversions& custom = *wish_.custom;
  CustomConversions::Request request{tensor.format, *wish_.format,
                                     tensor.shape,  wish_.shape.empty() ? tensor.original_shape : wish_.shape,
                                     tensor.groups, custom.scratch_file()};
  const auto stream = ElementStream::make(tensor.data, tensor.data_type, tensor.elements, tensor.count);
  if (!stream) throw Lost{ConvertFault::conversion, stream.error().message};
  std::error_code ignored;
  const std::string header = npy_header(stream->dtype(), Shape{tensor.count}, false);
  {
    const Fd file(::open(request.elements.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, kOpenMode));
    int error_number = file ? write_all(file.get(), header.data(), header.size()) : errno;
    if (error_number == 0) error_number = stream->write(file.get(), header.size(), wish_.threads);
    if (error_number != 0) {
      throw Lost{ConvertFault::cannot_write, io_error("write", request.elements, error_number).message};
    }
  }
  const Result<fs::path> made = custom.run(request);
  fs::remove(request.elements, ignored);
  if (!made) throw Lost{ConvertFault::conversion, made.error().message};
  const Result<NpyFile> npy = NpyFile::open(*made);
  fs::remove(*made, ignored);  // the mapping keeps its bytes
  if (!npy) throw Lost{ConvertFault::conversion, "what the custom script made: " + npy.error().message};
  const TensorView view = npy->view();
  std::vector<std::byte> copy(view.is_c_contiguous() ? 0 : view.bytes());
  if (!copy.empty()) copy_c_order(view, copy.data());
  Stored result = tensor;
  result.data_type = kCannUndefined;
  result.elements = {view.dtype, static_cast<std::uint8_t>(info(view.dtype).item_bytes * 8), false};
  result.data = copy.empty() ? view.data : copy.data();
  result.shape.assign(view.shape.begin(), view.shape.end());
  result.count = view.elements();
  Target target{result.shape, *wish_.format, true, std::nullopt};
  // What a script of the user's pads is cropped as the original does, but for blocked results.
  if (!request.to_shape.empty() && !is_blocked(*wish_.format)) {
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

void Conversion::convert(const Stored& tensor) {
  if (wish_.format && wish_.custom != nullptr && wish_.custom->has(tensor.format, *wish_.format)) {
    return convert_custom(tensor);
  }
  Target made;
  try {
    made = target(tensor);
  } catch (const Lost&) {
    // Under MindSpore's names a tensor that cannot be turned is written as it is, and lost all the same.
    if (wish_.type == ConvertedType::msnpy) write(tensor, {tensor.shape, tensor.format, false, std::nullopt});
    throw;
  }
  write(tensor, made);
}

std::string_view Conversion::suffix() const {
  switch (wish_.type) {
    case ConvertedType::bin:
      return ".bin";
    case ConvertedType::pt:
      return ".pt";
    default:
      return ".npy";
  }
}

// NumPy's word for the type, as names of plain bytes have it; what was bfloat16 keeps its name.
std::string_view dtype_word(DType dtype) {
  if (dtype == DType::bfloat16) return "bfloat16";
  for (const DTypeInfo& row : all_dtypes()) {
    if (row.npy == info(dtype).npy && row.npy.size() > 0 && row.file_bytes == row.item_bytes) return row.lower;
  }
  return info(dtype).lower;
}

std::string Conversion::tensor_name(const Stored& tensor, const Target& target) const {
  const std::string_view side = tensor.is_input ? "input" : "output";
  if (wish_.type == ConvertedType::msnpy) {
    std::string base = base_;
    if (std::ranges::count(name_, '.') == 4 && !op_name_.empty()) {
      const std::size_t first = name_.find('.'), second = name_.find('.', first + 1);
      base = name_.substr(0, first + 1) + op_name_.substr(op_name_.rfind('/') + 1) + name_.substr(second);
    }
    return fmt::format("{}.{}.{}.{}.npy", base, side, tensor.slot, format_text(target.format));
  }
  const std::string base = fmt::format("{}.{}.{}", base_, side, tensor.slot);
  if (wish_.type == ConvertedType::bin) {
    const std::string sizes =
        target.is_converted ? fmt::format("{}", fmt::join(target.shape, "_")) : std::to_string(tensor.count);
    return fmt::format("{}.{}.{}.{}.bin", base, sizes, dtype_word(tensor.elements.dtype), format_text(target.format));
  }
  if (!target.is_converted) return base + std::string(suffix());
  return fmt::format("{}.{}{}", base, fmt::join(target.shape, "x"), suffix());
}

void Conversion::write(const Stored& tensor, const Target& target) {
  const auto stream = ElementStream::make(tensor.data, tensor.data_type, tensor.elements, tensor.count, target.plan);
  if (!stream) throw Lost{ConvertFault::conversion, stream.error().message};
  std::string name = tensor_name(tensor, target);
  std::ranges::replace(name, '/', '_');
  write_elements(name, *stream, target.shape);
}

void Conversion::write_elements(const std::string& name, const ElementStream& stream, const Shape& shape) {
  const fs::path path = directory_ / fitting_name(directory_, name, suffix());
  std::string head;
  PtFrame frame;
  if (wish_.type == ConvertedType::pt) {
    frame = pt_frame(stream.dtype(), shape, stream.bytes());
    head = frame.head;
  } else if (wish_.type != ConvertedType::bin) {
    head = npy_header(stream.dtype(), shape, false);
  }
  if (head.empty() && wish_.type != ConvertedType::bin) {
    throw Lost{ConvertFault::unknown_type, fmt::format("a file has no form for {}", info(stream.dtype()).lower)};
  }
  std::error_code ignored;
  fs::remove(path, ignored);
  const Fd file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kOpenMode));
  int error_number = file ? 0 : errno;
  if (error_number == 0 && wish_.type == ConvertedType::pt) {
    std::uint32_t crc = 0;
    error_number = stream.write(file.get(), head.size(), 1, &crc);
    finish_pt(frame, crc);
    head = frame.head;
    const auto end = static_cast<off_t>(head.size() + stream.bytes());
    if (error_number == 0 && ::lseek(file.get(), end, SEEK_SET) < 0) error_number = errno;
    if (error_number == 0) error_number = write_all(file.get(), frame.tail.data(), frame.tail.size());
    if (error_number == 0 && ::lseek(file.get(), 0, SEEK_SET) < 0) error_number = errno;
  } else if (error_number == 0) {
    error_number = stream.write(file.get(), head.size(), wish_.threads);
  }
  if (error_number == 0) error_number = write_all(file.get(), head.data(), head.size());
  if (error_number == 0) {
    done_.written.push_back({path, stream.bytes()});
    return;
  }
  if (file) fs::remove(path, ignored);  // half a file would be taken for a whole one
  throw Lost{ConvertFault::cannot_write, io_error("write", path, error_number).message};
}

void Conversion::write_bytes(const std::string& name, std::string_view suffix, std::string_view bytes) {
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

}  // namespace

Converted convert_file(const fs::path& file, const fs::path& directory, const ConvertWish& wish) {
  Converted done;
  if (Status made = make_directories(directory); !made) {
    done.lost.push_back({ConvertFault::cannot_write, "", made.error().message});
    return done;
  }
  Conversion conversion(file, directory, wish, done);
  const std::string name = wish.name.empty() ? file.filename().string() : wish.name;
  if (name.ends_with(".npy")) {
    conversion.npy();
  } else if (name.ends_with(".bin")) {
    conversion.raw();
  } else {
    conversion.container();
  }
  return done;
}

}  // namespace sonde
