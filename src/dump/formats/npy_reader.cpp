#include "dump/formats/npy_reader.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <new>
#include <utility>

#include "dump/formats/limits.h"

namespace sonde {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr std::uint64_t kLongestNpyHeader = 1 << 20;

// The Python literal in the header: {'descr': '<f4', 'fortran_order': False, 'shape': (2,3,), }.
class Literal {
 public:
  explicit Literal(std::string_view text) : rest_(text) {}

  bool take(char c) {
    skip_space();
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  bool take(std::string_view word) {
    skip_space();
    if (!rest_.starts_with(word)) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  bool take_text(std::string_view& out) {
    skip_space();
    if (rest_.empty() || (rest_.front() != '\'' && rest_.front() != '"')) return false;
    const std::size_t end = rest_.find(rest_.front(), 1);
    if (end == std::string_view::npos) return false;
    out = rest_.substr(1, end - 1);
    rest_.remove_prefix(end + 1);
    return true;
  }
  bool take_bool(bool& out) {
    out = take("True");
    return out || take("False");
  }
  bool take_size(std::int64_t& out) {
    skip_space();
    const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), out);
    if (error != std::errc() || out < 0) return false;
    rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
    take('L');  // Python 2 wrote long integers so
    return true;
  }
  bool take_shape(std::vector<std::int64_t>& out) {
    if (!take('(')) return false;
    while (!take(')')) {
      std::int64_t size = 0;
      if (out.size() == kMostDimensions || !take_size(size)) return false;
      out.push_back(size);
      if (!take(',')) return take(')');
    }
    return true;
  }

 private:
  void skip_space() {
    const std::size_t at = rest_.find_first_not_of(" \t\r\n");
    rest_.remove_prefix(std::min(at, rest_.size()));
  }
  std::string_view rest_;
};

struct Description {
  std::string_view descr;
  bool fortran_order = false;
  std::vector<std::int64_t> shape;
  bool has_descr = false, has_order = false, has_shape = false;
  bool is_record = false;  // a descr that is a list of fields; the rest is not read then
};

bool parse_description(std::string_view text, Description& out) {
  Literal literal(text);
  if (!literal.take('{')) return false;
  while (!literal.take('}')) {
    std::string_view key;
    if (!literal.take_text(key) || !literal.take(':')) return false;
    if (key == "descr") {
      out.is_record = literal.take('[') || literal.take('(');
      if (out.is_record) return true;
      if (!literal.take_text(out.descr)) return false;
      out.has_descr = true;
    } else if (key == "fortran_order") {
      if (!literal.take_bool(out.fortran_order)) return false;
      out.has_order = true;
    } else if (key == "shape") {
      if (!literal.take_shape(out.shape)) return false;
      out.has_shape = true;
    } else {
      return false;
    }
    if (!literal.take(',')) {
      if (!literal.take('}')) return false;
      break;
    }
  }
  return out.has_descr && out.has_order && out.has_shape;
}

struct Descr {
  std::string_view code;
  DType dtype;
};
constexpr Descr kDescrs[] = {
    {"b1", DType::bool8},    {"i1", DType::int8},     {"i2", DType::int16},     {"i4", DType::int32},
    {"i8", DType::int64},    {"u1", DType::uint8},    {"u2", DType::uint16},    {"u4", DType::uint32},
    {"u8", DType::uint64},   {"f2", DType::float16},  {"f4", DType::float32},   {"f8", DType::float64},
    {"E2", DType::bfloat16}, {"T2", DType::bfloat16}, {"c8", DType::complex64}, {"c16", DType::complex128},
    {"?", DType::bool8},     {"V2", DType::bfloat16},  // NumPy's form of ml_dtypes' bfloat16
};

DType dtype_of(std::string_view descr) {
  if (!descr.empty() && std::string_view("<>|=").find(descr.front()) != std::string_view::npos) {
    descr.remove_prefix(1);
  }
  for (const Descr& row : kDescrs) {
    if (row.code == descr) return row.dtype;
  }
  return DType::undefined;
}

// The reason why elements of a type cannot be read.
std::string reason_against(std::string_view descr) {
  const std::string text = "element type '" + std::string(descr.substr(0, 100)) + "' ";
  const std::size_t kind = descr.find_first_of("SUaOVMmf");
  switch (kind == std::string_view::npos ? '\0' : descr[kind]) {
    case 'S':
    case 'a':
    case 'U':
      return text + "is text, no numbers";
    case 'O':
      return text + "is pickled objects of Python, which are not read: that could run code";
    case 'M':
    case 'm':
      return text + "is times, no numbers";
    case 'V':
      return text + "is bytes without a meaning, no numbers";
    case 'f':
      return text + "is wider than a double";
    default:
      return text + "is not known";
  }
}

// False if the product does not fit: no file has that size.
bool multiply(std::span<const std::int64_t> sizes, std::uint64_t& product) {
  if (std::ranges::find(sizes, 0) != sizes.end()) {
    product = 0;
    return true;
  }
  for (const std::int64_t size : sizes) {
    const auto factor = static_cast<std::uint64_t>(size);
    if (factor > std::numeric_limits<std::int64_t>::max() / product) return false;
    product *= factor;
  }
  return true;
}

std::vector<std::int64_t> strides_of(const NpyHeader& header) {
  std::vector<std::int64_t> strides(header.shape.size());
  std::uint64_t step = 1;  // may wrap if a file without elements has huge sizes; the strides are not used then
  for (std::size_t i = 0; i < strides.size(); ++i) {
    const std::size_t d = header.fortran_order ? i : strides.size() - 1 - i;
    strides[d] = static_cast<std::int64_t>(step);
    step *= static_cast<std::uint64_t>(std::max<std::int64_t>(header.shape[d], 1));
  }
  return strides;
}

}  // namespace

bool is_npy(std::string_view start) { return start.starts_with(kNpyMagic); }

Result<NpyHeader> parse_npy_header(std::string_view start, std::uint64_t file_bytes) {
  if (start.size() < 10 || !start.starts_with(kNpyMagic)) {
    return corrupt("it is not an npy file: it does not start with 93 'NUMPY'");
  }
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(start[i]); };
  const unsigned version = byte(6);
  if (version < 1 || version > 3) {
    return Error{ErrorCode::unsupported, "npy version " + std::to_string(version) + "; versions 1 to 3 are known"};
  }
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  std::uint64_t length = 0;
  if (start.size() < 8 + length_bytes) return corrupt("the npy header is cut off");
  for (std::size_t i = 0; i < length_bytes; ++i) length |= std::uint64_t{byte(8 + i)} << (8 * i);
  NpyHeader header;
  header.data_offset = 8 + length_bytes + length;
  if (length > kLongestNpyHeader || header.data_offset > start.size()) {
    return corrupt("the npy header says it is " + std::to_string(length) + " bytes long; the file has " +
                   std::to_string(file_bytes));
  }
  Description description;
  if (!parse_description(start.substr(8 + length_bytes, length), description)) {
    return corrupt("the npy header is not a dictionary of descr, fortran_order and shape");
  }
  if (description.is_record) {
    return Error{ErrorCode::unsupported, "its elements are records of several fields, no numbers"};
  }
  header.dtype = dtype_of(description.descr);
  if (header.dtype == DType::undefined) return Error{ErrorCode::unsupported, reason_against(description.descr)};
  header.big_endian = description.descr.starts_with('>');
  header.fortran_order = description.fortran_order;
  header.shape = std::move(description.shape);
  std::uint64_t bytes = info(header.dtype).item_bytes;
  if (!multiply(header.shape, bytes) || bytes > file_bytes - header.data_offset) {
    return corrupt("the file is cut off: shape " + shape_text(header.shape, '(', ')') + " does not fit into the " +
                   std::to_string(file_bytes - header.data_offset) + " bytes after the header");
  }
  header.data_bytes = bytes;
  return header;
}

Result<NpyFile> NpyFile::open(const std::filesystem::path& path) {
  Result<MappedFile> mapped = MappedFile::open(path);
  if (!mapped) return mapped.error();
  Result<NpyFile> file = of(std::move(*mapped));
  if (!file) return cannot_read(path, file.error().code, file.error().message);
  return file;
}

Result<NpyFile> NpyFile::of(MappedFile mapped) {
  NpyFile file;
  file.mapped_ = std::move(mapped);
  Result<NpyHeader> header = parse_npy_header(file.mapped_.text(), file.mapped_.bytes());
  if (!header) return header.error();
  file.header_ = std::move(*header);
  file.strides_ = strides_of(file.header_);
  if (Status turned = file.turn_bytes(); !turned) return turned.error();
  return file;
}

Status NpyFile::turn_bytes() {
  std::size_t word = info(header_.dtype).item_bytes;
  if (header_.dtype == DType::complex64 || header_.dtype == DType::complex128) word /= 2;
  if (!header_.big_endian || word == 1) return {};
  try {
    turned_.resize(header_.data_bytes);
  } catch (const std::bad_alloc&) {
    return Error{ErrorCode::io, "not enough memory to turn big-endian elements"};
  }
  const std::byte* in = mapped_.data() + header_.data_offset;
  for (std::size_t at = 0; at < turned_.size(); at += word) {
    std::reverse_copy(in + at, in + at + word, turned_.begin() + static_cast<std::ptrdiff_t>(at));
  }
  return {};
}

TensorView NpyFile::view() const {
  TensorView view;
  view.dtype = header_.dtype;
  view.data = turned_.empty() ? mapped_.data() + header_.data_offset : turned_.data();
  view.shape = header_.shape;
  view.strides = strides_;
  return view;
}

}  // namespace sonde
