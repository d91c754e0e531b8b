#include "guests/msaccucmp/dump_file.h"

#include <fmt/format.h>

#include <algorithm>

#include "dump/formats/cann_elements.h"
#include "dump/formats/cann_types.h"
#include "dump/formats/container.h"
#include "dump/formats/npy_reader.h"
#include "ground/base/shape.h"
#include "ground/base/text.h"
#include "ground/files/mapped_file.h"
#include "guests/msaccucmp/slices.h"

namespace sonde::msaccucmp {
namespace {

constexpr std::int32_t kReserved = 40;  // for a file without a format: a golden file

// False if the product leaves 63 bits or a size is negative.
bool count_elements(const std::vector<std::int64_t>& shape, std::int64_t& elements) {
  const std::optional<std::int64_t> span = stride_span(shape);
  const bool is_empty = std::ranges::find(shape, 0) != shape.end();
  elements = is_empty ? 0 : span.value_or(0);
  return span.has_value();
}

std::vector<std::int64_t> signed_sizes(const std::vector<std::uint64_t>& sizes) { return {sizes.begin(), sizes.end()}; }

// Elements as an array: the bytes of the file if they have the array's form.
Array array_of(const ContainerTensor& from, const CannElements& kind, std::int64_t elements,
               const std::shared_ptr<const MappedFile>& mapped) {
  const std::byte* data = mapped->data() + from.offset;
  if (!kind.decoded) return {kind.dtype, {}, data, mapped};
  const auto count = static_cast<std::uint64_t>(elements);
  auto bytes = std::make_shared_for_overwrite<std::byte[]>(count * info(kind.dtype).item_bytes);
  decode_cann(from.data_type, data, 0, count, bytes.get());
  const std::byte* first = bytes.get();
  return {kind.dtype, {}, first, std::move(bytes)};
}

void take_values(DumpTensor& tensor, const ContainerTensor& from, const std::shared_ptr<const MappedFile>& mapped) {
  const auto fail = [&](Code code, std::string reason) { tensor.problem = Failure{code, std::move(reason)}; };
  std::int64_t elements = 0;
  if (!count_elements(tensor.shape, elements) || elements >= std::int64_t{1} << 60) {
    return fail(Code::invalid_shape, "the shape is too large for any memory");
  }
  const std::optional<CannElements> kind = cann_elements(from.data_type);
  if (!kind) {
    return fail(Code::unsupported_type,
                fmt::format("the element type {} cannot be compared", cann_type_name(from.data_type)));
  }
  if (kind->bytes(static_cast<std::uint64_t>(elements)) > from.bytes) {
    return fail(Code::invalid_dump_data, fmt::format("{} bytes do not fill {} elements of {}", from.bytes, elements,
                                                     cann_type_name(from.data_type)));
  }
  tensor.array = array_of(from, *kind, elements, mapped);
  tensor.array.shape = tensor.shape;
}

DumpTensor described(const ContainerTensor& from, const std::shared_ptr<const MappedFile>& mapped) {
  DumpTensor tensor;
  tensor.data_type = from.data_type;
  tensor.format = from.format;
  tensor.groups = from.sub_format;
  tensor.address = from.address;
  tensor.shape = signed_sizes(from.shape);
  tensor.original_shape = signed_sizes(from.original_shape);
  if (from.original) tensor.original_format = from.original->format;
  if (from.data_type == kCannUndefined && from.bytes > 0) tensor.shape = {static_cast<std::int64_t>(from.bytes)};
  take_values(tensor, from, mapped);
  return tensor;
}

Outcome<DumpOp> read_npy(const std::filesystem::path& file) {
  Result<NpyFile> opened = NpyFile::open(file);
  if (!opened) return Failure{Code::invalid_dump_data, opened.error().message};
  const auto npy = std::make_shared<const NpyFile>(*std::move(opened));
  const TensorView view = npy->view();
  DumpTensor tensor;
  tensor.data_type = cann_type(view.dtype);
  tensor.format = kReserved;
  tensor.shape.assign(view.shape.begin(), view.shape.end());
  tensor.array = {view.dtype, tensor.shape, view.data, npy};
  if (!view.is_c_contiguous()) {
    auto bytes = std::make_shared<std::vector<std::byte>>(view.bytes());
    copy_c_order(view, bytes->data());
    tensor.array.data = bytes->data();
    tensor.array.owner = std::move(bytes);
  }
  DumpOp op;
  op.path = file.string();
  op.outputs.push_back(std::move(tensor));
  return op;
}

}  // namespace

std::int64_t Array::elements() const {
  std::int64_t elements = 0;
  count_elements(shape, elements);
  return elements;
}

TensorView Array::flat(std::int64_t (&size_and_stride)[2], std::int64_t most) const {
  size_and_stride[0] = most >= 0 ? std::min(most, elements()) : elements();
  size_and_stride[1] = 1;
  TensorView view;
  view.dtype = dtype;
  view.data = data;
  view.shape = {size_and_stride, 1};
  view.strides = {size_and_stride + 1, 1};
  return view;
}

Outcome<DumpOp> read_dump_file(const std::filesystem::path& file) {
  if (file.extension() == ".npy") return read_npy(file);
  Result<MappedFile> opened = MappedFile::open(file);
  if (!opened) return Failure{Code::invalid_dump_data, opened.error().message};
  const auto mapped = std::make_shared<const MappedFile>(*std::move(opened));
  const Result<Container> container = parse_container(mapped->text(), mapped->bytes());
  if (!container) {
    return Failure{Code::invalid_dump_data, fmt::format("'{}': {}", file.string(), container.error().message)};
  }
  DumpOp op;
  op.path = file.string();
  op.name = container->op_name;
  for (const ContainerTensor& tensor : container->inputs) op.inputs.push_back(described(tensor, mapped));
  for (const ContainerTensor& tensor : container->outputs) op.outputs.push_back(described(tensor, mapped));
  if (!container->attributes.empty()) op.slicing = parse_slicing(container->attributes.front().second);
  op.renames = op.slicing && !op.name.empty();
  for (DumpTensor& tensor : op.inputs) tensor.is_sliced = op.slicing.has_value();
  for (DumpTensor& tensor : op.outputs) tensor.is_sliced = op.slicing.has_value();
  return op;
}

Outcome<DumpOp> read_op(const OpFiles& files) {
  if (files.mode == SliceMode::whole) return read_dump_file(files.files.back().path);
  std::vector<DumpOp> slices;
  for (const DumpFile& file : files.files) {
    Outcome<DumpOp> slice = read_dump_file(file.path);
    if (!slice) return slice.failure();
    slices.push_back(std::move(*slice));
  }
  return merge_slices(files, std::move(slices));
}

std::string array_type_name(DType dtype) {
  switch (dtype) {
    case DType::bool8:
      return "bool";
    case DType::bfloat16:
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
    case DType::float8_e4m3fnuz:
    case DType::float8_e5m2fnuz:
    case DType::float8_e8m0fnu:
      return "float32";
    case DType::complex32:
      return "complex64";
    case DType::qint8:
      return "int8";
    case DType::quint8:
      return "uint8";
    case DType::qint32:
      return "int32";
    default:
      return std::string(info(dtype).lower);
  }
}

std::string data_type_name(std::int32_t data_type) {
  if (data_type == kCannUndefined) return "int8";
  const std::optional<CannElements> kind = cann_elements(data_type);
  if (!kind) return "NaN";
  if (!kind->decoded) return kind->dtype == DType::bool8 ? "bool" : std::string(info(kind->dtype).lower);
  return lower_case(cann_type_name(data_type));  // "hifloat8"
}

}  // namespace sonde::msaccucmp
