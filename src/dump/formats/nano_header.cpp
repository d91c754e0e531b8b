#include "dump/formats/nano_header.h"

#include <fmt/format.h>

#include <array>
#include <type_traits>

#include "dump/formats/cann_elements.h"
#include "dump/formats/limits.h"

namespace sonde {
namespace {

constexpr std::uint32_t kInputs = 4, kOutputs = 5;
constexpr std::uint32_t kShape = 0, kOriginalShape = 1, kOriginalName = 2;
// A type that the container cannot number becomes an unknown type, so that only its own tensor is lost.
constexpr std::int32_t kNoType = 1000;

// Row i is the container's number of GE's type i; the others are not numeric types in either.
constexpr std::array<std::int32_t, 42> kCannTypes = {1,  2,  3,  7,  4,  kNoType, 5,  6,  9,  8,  10, 12, 11, 13,
                                                     14, 15, 16, 17, 18, 19,      20, 21, 22, 23, 24, 25, 26, 27,
                                                     0,  28, 29, 30, 31, 32,      33, 34, 35, 36, 37, 38, 39, 40};

struct CutOff {};  // thrown inside this file

class HeaderReader {
 public:
  explicit HeaderReader(std::string_view bytes) : bytes_(bytes) {}

  template <typename Number>
  Number take() {
    const std::string_view text = take_bytes(sizeof(Number));
    std::make_unsigned_t<Number> value = 0;
    for (std::size_t i = 0; i < sizeof value; ++i) {
      value |= static_cast<std::make_unsigned_t<Number>>(static_cast<unsigned char>(text[i])) << (8 * i);
    }
    return static_cast<Number>(value);
  }
  std::string_view take_bytes(std::uint64_t count) {
    if (count > bytes_.size()) throw CutOff();
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  bool done() const { return bytes_.empty(); }

 private:
  std::string_view bytes_;
};

std::vector<std::uint64_t> take_dims(HeaderReader reader) {
  std::vector<std::uint64_t> dims;
  while (!reader.done()) {
    if (dims.size() == kMostDimensions) throw CutOff();
    dims.push_back(reader.take<std::uint64_t>());
  }
  return dims;
}

struct Described {
  ContainerTensor tensor;
  std::int32_t ge_type = 0;
  bool has_shape = false;
};

void take_parts(HeaderReader reader, Described& out) {
  while (!reader.done()) {
    const auto tag = reader.take<std::uint32_t>();
    const std::string_view value = reader.take_bytes(reader.take<std::uint32_t>());
    if (tag == kShape) {
      out.tensor.shape = take_dims(HeaderReader(value));
      out.has_shape = true;
    } else if (tag == kOriginalShape) {
      out.tensor.original_shape = take_dims(HeaderReader(value));
    } else if (tag == kOriginalName && out.tensor.original) {
      out.tensor.original->op_name = value;
    }
  }
}

Described take_tensor(HeaderReader& reader, bool is_input) {
  Described out;
  out.ge_type = reader.take<std::int32_t>();
  out.tensor.format = reader.take<std::int32_t>();
  reader.take<std::int32_t>();  // kind of address
  if (!is_input) {
    OriginalOutput& original = out.tensor.original.emplace();
    original.slot = static_cast<std::uint32_t>(reader.take<std::int32_t>());
    original.data_type = reader.take<std::int32_t>();
    original.format = reader.take<std::int32_t>();
  }
  out.tensor.address = reader.take<std::uint64_t>();
  reader.take<std::uint64_t>();  // offset on the device
  out.tensor.bytes = reader.take<std::uint64_t>();
  take_parts(HeaderReader(reader.take_bytes(reader.take<std::uint32_t>())), out);
  return out;
}

std::int32_t cann_type_of(std::int32_t ge_type) {
  const auto row = static_cast<std::size_t>(ge_type);
  return ge_type >= 0 && row < kCannTypes.size() ? kCannTypes[row] : kNoType;
}

void take_side(HeaderReader& reader, bool is_input, std::vector<ContainerTensor>& side) {
  const auto count = reader.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count; ++i) {  // every element takes bytes of the header, so a false count fails
    Described described = take_tensor(reader, is_input);
    described.tensor.data_type = cann_type_of(described.ge_type);
    const std::optional<CannElements> elements = cann_elements(described.tensor.data_type);
    if (!described.has_shape && elements) {
      const std::uint64_t bytes = described.tensor.bytes, bits = elements->bits;
      described.tensor.shape = {bits >= 8 ? bytes / (bits / 8) : bytes / bits * 8 + bytes % bits * 8 / bits};
    }
    side.push_back(std::move(described.tensor));
  }
}

}  // namespace

Result<Container> parse_nano_header(std::string_view header) {
  Container container;
  container.is_nano = true;
  HeaderReader reader(header);
  try {
    if (reader.take<std::uint32_t>() != kNanoMagic) throw CutOff();
    container.version = fmt::format("{}", reader.take<std::uint32_t>());
    while (!reader.done()) {
      const auto tag = reader.take<std::uint32_t>();
      const auto length = reader.take<std::uint32_t>();
      // Writers disagree about the meaning of these two lengths. The records contain their own length.
      if (tag == kInputs) {
        take_side(reader, true, container.inputs);
      } else if (tag == kOutputs) {
        take_side(reader, false, container.outputs);
      } else {
        reader.take_bytes(length);
      }
    }
  } catch (const CutOff&) {
    return Error{ErrorCode::corrupt, "the header of a nano device's dump has a part that is longer than the header"};
  }
  return container;
}

}  // namespace sonde
