#include "ask/convert/convert.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <new>
#include <string_view>
#include <utility>

#include "ask/convert/conversion.h"
#include "ask/convert/overflow_json.h"
#include "dump/formats/cann_types.h"
#include "dump/formats/file_names.h"
#include "dump/formats/npy_reader.h"
#include "dump/formats/tensor_file.h"
#include "ground/files/files.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using Shape = std::vector<std::int64_t>;

constexpr std::int64_t kMostElements = std::numeric_limits<std::int64_t>::max() / 64;

Format format_of(std::int32_t number) {
  // The device's word has the sub-format and C0 above the eight bits of the format.
  return static_cast<Format>(static_cast<std::uint32_t>(number) & 0xFF);
}

// The number of elements; throws if it exceeds the address space.
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

}  // namespace

void Conversion::lose(ConvertFault fault, std::string what, const std::string& message) {
  std::string text = what.empty() ? message : fmt::format("cannot convert '{}': {}: {}", file_.string(), what, message);
  done_.lost.push_back({fault, std::move(what), std::move(text)});
}

// Reports an error in one tensor and continues with the next.
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

// --- contents of a file
// ------------------------------------------------------------------------------------------------

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
  tensors_.set_op_name(container->op_name);
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
  if (is_overflow_file(name_) && !spec_.format) return overflow(*container);
  std::optional<ThreadSlices> slices;
  try {
    slices = slices_of(*container);
  } catch (const Lost& lost) {
    return lose(lost.fault, "", cannot_read(file_, ErrorCode::corrupt, lost.message).message);
  }
  side(*container, true, slices);
  side(*container, false, slices);
  if (!spec_.format) extras(*container);
}

std::optional<ThreadSlices> Conversion::slices_of(const Container& container) {
  if (container.attributes.empty() || spec_.format) return std::nullopt;
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
  if (!spec_.input && !spec_.output) return true;
  return (is_input ? spec_.input : spec_.output) == slot;
}

void Conversion::check_slots(const Container& container) {
  const auto check = [&](const std::optional<std::uint32_t>& wanted, std::size_t count, std::string_view side) {
    if (!wanted || *wanted < count) return;
    lose(ConvertFault::not_in_file, fmt::format("{}.{}", side, *wanted),
         fmt::format("there is none: the file has {} {}s", count, side));
  };
  check(spec_.input, container.inputs.size(), "input");
  check(spec_.output, container.outputs.size(), "output");
}

void Conversion::side(const Container& container, bool is_input, const std::optional<ThreadSlices>& slices) {
  const std::vector<ContainerTensor>& tensors = is_input ? container.inputs : container.outputs;
  for (std::uint32_t slot = 0; slot < tensors.size(); ++slot) {
    const ContainerTensor& tensor = tensors[slot];
    const bool is_placeholder = tensor.data_type == kCannUndefined && tensor.bytes == 0;
    if (!is_wanted(is_input, slot) || (is_placeholder && !tensor.is_cut && !spec_.is_strict)) continue;
    const Shape* slice = slices ? &(is_input ? slices->inputs : slices->outputs)[slot] : nullptr;
    const std::string what = fmt::format("{}.{}", is_input ? "input" : "output", slot);
    if (tensor.is_cut) {
      lose(ConvertFault::damaged, what, "the file ends before it does");
    } else {
      guarded(what, [&] { tensors_.convert(stored(tensor, is_input, slot, slice)); });
    }
  }
}

// The place and the size of one tensor's elements, checked against its bytes.
StoredTensor Conversion::stored(const ContainerTensor& tensor, bool is_input, std::uint32_t slot,
                                const Shape* slice) const {
  StoredTensor out;
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
               fmt::format("element type {} is not numeric", cann_type_name(tensor.data_type))};
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
      tensors_.write_bytes(fmt::format("{}.output.{}.json", base_, slot), ".json", record->json);
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
        tensors_.write_bytes(fmt::format("{}.{}.{}.bin", base_, what, i), ".bin",
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
    StoredTensor tensor;
    tensor.data_type = cann_type(view.dtype);
    tensor.elements = {view.dtype, static_cast<std::uint8_t>(info(view.dtype).item_bytes * 8), false};
    tensor.shape.assign(view.shape.begin(), view.shape.end());
    tensor.count = view.elements();
    tensor.data = copy.empty() ? view.data : copy.data();
    tensors_.convert(tensor);
  });
}

// A file of MindSpore 1.2 without a header: its name describes it, and the name of the result still does.
void Conversion::raw() {
  const Result<TensorFile> tensor = TensorFile::open(file_, {.name = spec_.name});
  if (!tensor) {
    const bool is_io = tensor.error().code == ErrorCode::io || tensor.error().code == ErrorCode::not_found;
    return lose(is_io ? ConvertFault::unreadable : ConvertFault::damaged, "", tensor.error().message);
  }
  TensorFileName named;
  parse_tensor_file_name(spec_.name.empty() ? base_ : spec_.name, named);
  if (!is_wanted(named.is_input, named.slot)) return;
  StoredTensor stored;
  stored.is_input = named.is_input;
  stored.slot = named.slot;
  guarded(stored.what(), [&] {
    const TensorView view = tensor->view();
    stored.data_type = kCannUndefined;
    stored.elements = {view.dtype, static_cast<std::uint8_t>(info(view.dtype).item_bytes * 8), false};
    stored.shape = tensor->shape();
    stored.count = view.elements();
    stored.data = view.data;
    const bool is_image = named.format == "DefaultFormat" && stored.shape.size() == 4;
    stored.format = is_image ? Format::nchw : format_from_name(named.format).value_or(Format::nd);
    const ConvertTarget made = tensors_.target(stored);
    const auto stream = ElementStream::make(stored.data, stored.data_type, stored.elements, stored.count, made.plan);
    if (!stream) throw Lost{ConvertFault::conversion, stream.error().message};
    const std::string sizes = made.is_converted ? fmt::format(".{}", fmt::join(made.shape, "x")) : "";
    tensors_.write_elements(fs::path(base_).stem().string() + sizes + std::string(tensors_.suffix()), *stream,
                            made.shape);
  });
}

Converted convert_file(const fs::path& file, const fs::path& directory, const ConvertSpec& spec) {
  Converted done;
  if (Status made = make_directories(directory); !made) {
    done.lost.push_back({ConvertFault::cannot_write, "", made.error().message});
    return done;
  }
  Conversion conversion(file, directory, spec, done);
  const std::string name = spec.name.empty() ? file.filename().string() : spec.name;
  TensorFileName raw;
  if (name.ends_with(".npy")) {
    conversion.npy();
  } else if (name.ends_with(".bin") && (!spec.is_strict || parse_tensor_file_name(name, raw))) {
    conversion.raw();
  } else {
    conversion.container();
  }
  return done;
}

}  // namespace sonde
