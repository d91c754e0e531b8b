#include "dump/formats/pt_file.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

namespace sonde {
namespace {

// --- pickle, protocol 2 ----------------------------------------------------------------------------------------------

void put_number(std::string& out, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) out.push_back(static_cast<char>(value >> (8 * i) & 0xFF));
}

void put_int(std::string& out, std::uint64_t value) {
  if (value < 256) {
    out.push_back('K');
    put_number(out, value, 1);
  } else if (value < (1ULL << 31)) {
    out.push_back('J');
    put_number(out, value, 4);
  } else {  // as many bytes as it has, and one for the sign
    out.push_back('\x8a');
    out.push_back('\x09');
    put_number(out, value, 8);
    out.push_back('\0');
  }
}

void put_string(std::string& out, std::string_view text) {
  out.push_back('X');
  put_number(out, text.size(), 4);
  out.append(text);
}

void put_global(std::string& out, std::string_view module, std::string_view name) {
  out.append("c").append(module).append("\n").append(name).append("\n");
}

void put_tuple(std::string& out, std::span<const std::int64_t> values) {
  out.push_back('(');
  for (const std::int64_t value : values) put_int(out, static_cast<std::uint64_t>(value));
  out.push_back('t');
}

// The class of torch that holds elements of this type; empty for newer types, which have a dtype but no class.
std::string_view storage_of(DType dtype) {
  switch (dtype) {
    case DType::bool8:
      return "BoolStorage";
    case DType::int8:
    case DType::qint8:
      return "CharStorage";
    case DType::uint8:
    case DType::quint8:
      return "ByteStorage";
    case DType::int16:
      return "ShortStorage";
    case DType::int32:
    case DType::qint32:
      return "IntStorage";
    case DType::int64:
      return "LongStorage";
    case DType::float16:
      return "HalfStorage";
    case DType::float64:
      return "DoubleStorage";
    case DType::complex64:
    case DType::complex32:
      return "ComplexFloatStorage";
    case DType::complex128:
      return "ComplexDoubleStorage";
    case DType::uint16:
    case DType::uint32:
    case DType::uint64:
    case DType::undefined:
      return "";
    default:  // float32, and all types that are widened to it
      return "FloatStorage";
  }
}

std::string pickle_of(DType dtype, std::span<const std::int64_t> shape, std::uint64_t bytes) {
  const std::string_view storage = storage_of(dtype);
  std::string out("\x80\x02");
  put_global(out, "torch._utils", storage.empty() ? "_rebuild_tensor_v3" : "_rebuild_tensor_v2");
  out.append("((");
  put_string(out, "storage");
  if (storage.empty()) {
    put_global(out, "torch.storage", "UntypedStorage");
  } else {
    put_global(out, "torch", storage);
  }
  put_string(out, "0");
  put_string(out, "cpu");
  put_int(out, storage.empty() ? bytes : bytes / info(dtype).file_bytes);
  out.append("tQ");  // the tuple is the name of the storage in the archive
  put_int(out, 0);   // the first element
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d-- > 1;) strides[d - 1] = strides[d] * std::max<std::int64_t>(shape[d], 1);
  put_tuple(out, shape);
  put_tuple(out, strides);
  out.push_back('\x89');  // requires_grad: False
  put_global(out, "collections", "OrderedDict");
  out.append(")R");  // no hooks
  if (storage.empty()) put_global(out, "torch", info(dtype).lower);
  return out.append("tR.");
}

// --- zip -------------------------------------------------------------------------------------------------------------

constexpr std::uint64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kElementAlign = 64;  // torch maps the elements in place
constexpr std::size_t kCrcInHeader = 14;

std::uint32_t crc_of(std::string_view text) {
  return static_cast<std::uint32_t>(crc32_z(0, reinterpret_cast<const Bytef*>(text.data()), text.size()));
}

// The common part of both headers of an entry, from `version needed` to the length of the extra field.
void put_common(std::string& out, std::string_view name, std::uint32_t crc, std::uint64_t size, std::size_t extra) {
  const bool is_large = size >= kMost32;
  put_number(out, is_large ? 45 : 20, 2);
  put_number(out, 0, 2);       // flags
  put_number(out, 0, 2);       // stored
  put_number(out, 0, 2);       // time
  put_number(out, 0x0021, 2);  // date: 1980-01-01
  put_number(out, crc, 4);
  for (int i = 0; i < 2; ++i) put_number(out, is_large ? kMost32 : size, 4);
  put_number(out, name.size(), 2);
  put_number(out, extra, 2);
}

// Appends the header of an entry, padded so that its data begin at a multiple of kElementAlign. Returns the position of
// the CRC.
std::size_t put_local_header(std::string& out, std::string_view name, std::uint32_t crc, std::uint64_t size) {
  const std::size_t begin = out.size();
  const std::size_t large = size >= kMost32 ? 20 : 0;
  const std::size_t before = begin + 30 + name.size() + large + 4;
  const std::size_t padding = (kElementAlign - before % kElementAlign) % kElementAlign;
  out.append("PK\x03\x04");
  put_common(out, name, crc, size, large + 4 + padding);
  out.append(name);
  if (large != 0) {
    put_number(out, 1, 2);
    put_number(out, 16, 2);
    put_number(out, size, 8);
    put_number(out, size, 8);
  }
  put_number(out, 0x4246, 2);  // "FB": torch's padding
  put_number(out, padding, 2);
  out.append(padding, 'Z');
  return begin + kCrcInHeader;
}

using ArchiveEntry = PtFrame::Entry;

void put_central_header(std::string& out, const ArchiveEntry& entry) {
  const bool is_large = entry.size >= kMost32, is_far = entry.offset >= kMost32;
  const std::size_t extra = (is_large || is_far ? 4 : 0) + (is_large ? 16 : 0) + (is_far ? 8 : 0);
  out.append("PK\x01\x02");
  put_number(out, 45, 2);  // made by
  put_common(out, entry.name, entry.crc, entry.size, extra);
  out.append(10, '\0');  // comment, disk, attributes
  put_number(out, is_far ? kMost32 : entry.offset, 4);
  out.append(entry.name);
  if (extra == 0) return;
  put_number(out, 1, 2);
  put_number(out, extra - 4, 2);
  if (is_large) {
    put_number(out, entry.size, 8);
    put_number(out, entry.size, 8);
  }
  if (is_far) put_number(out, entry.offset, 8);
}

void put_end(std::string& out, std::size_t entries, std::uint64_t offset, std::uint64_t size) {
  if (offset + size >= kMost32) {
    const std::uint64_t at = offset + size;
    out.append("PK\x06\x06");
    put_number(out, 44, 8);
    put_number(out, 45, 2);
    put_number(out, 45, 2);
    put_number(out, 0, 8);
    put_number(out, entries, 8);
    put_number(out, entries, 8);
    put_number(out, size, 8);
    put_number(out, offset, 8);
    out.append("PK\x06\x07");
    put_number(out, 0, 4);
    put_number(out, at, 8);
    put_number(out, 1, 4);
  }
  out.append("PK\x05\x06");
  put_number(out, 0, 4);
  put_number(out, entries, 2);
  put_number(out, entries, 2);
  put_number(out, std::min(size, kMost32), 4);
  put_number(out, std::min(offset, kMost32), 4);
  put_number(out, 0, 2);
}

constexpr std::string_view kElements = "archive/data/0";

}  // namespace

PtFrame pt_frame(DType dtype, std::span<const std::int64_t> shape, std::uint64_t bytes) {
  PtFrame frame;
  if (dtype == DType::undefined) return frame;
  const std::array<std::pair<std::string_view, std::string>, 3> files = {{
      {"archive/data.pkl", pickle_of(dtype, shape, bytes)},
      {"archive/byteorder", "little"},
      {"archive/version", "3\n"},
  }};
  for (const auto& [name, text] : files) {
    frame.entries.push_back({std::string(name), crc_of(text), text.size(), frame.head.size()});
    put_local_header(frame.head, name, crc_of(text), text.size());
    frame.head.append(text);
  }
  frame.entries.push_back({std::string(kElements), 0, bytes, frame.head.size()});
  frame.crc_offset = put_local_header(frame.head, kElements, 0, bytes);
  return frame;
}

void finish_pt(PtFrame& frame, std::uint32_t crc) {
  std::string crc_bytes;
  put_number(crc_bytes, crc, 4);
  frame.head.replace(frame.crc_offset, 4, crc_bytes);
  frame.entries.back().crc = crc;
  const std::uint64_t begin = frame.head.size() + frame.entries.back().size;
  frame.tail.clear();
  for (const PtFrame::Entry& entry : frame.entries) put_central_header(frame.tail, entry);
  const std::uint64_t size = frame.tail.size();
  put_end(frame.tail, frame.entries.size(), begin, size);
}

}  // namespace sonde
