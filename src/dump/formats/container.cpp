#include "dump/formats/container.h"

#include <fmt/format.h>

#include <cstddef>
#include <protozero/pbf_message.hpp>
#include <protozero/pbf_writer.hpp>

#include "dump/formats/cann_types.h"
#include "dump/formats/limits.h"
#include "dump/formats/nano_header.h"

namespace sonde {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHead = 64 << 20;  // an op has hundreds of tensors, not millions
constexpr std::size_t kMostTensors = 1 << 18;     // of buffers and spaces too: in a header each may take only two bytes

using Tag = protozero::pbf_tag_type;

// Field numbers, message by message.
enum class Dump : Tag {
  version = 1,
  dump_time = 2,
  output = 3,
  input = 4,
  buffer = 5,
  op_name = 6,
  attribute = 7,
  space = 8,
  dfx_message = 9
};
// OpInput counts differently from OpOutput after `shape`.
enum class Output : Tag {
  data_type = 1,
  format = 2,
  shape = 3,
  original_op = 4,
  size = 6,
  original_shape = 7,
  sub_format = 8,
  address = 9
};
enum class Input : Tag {
  data_type = 1,
  format = 2,
  shape = 3,
  size = 5,
  original_shape = 6,
  sub_format = 7,
  address = 8,
  input_type = 11
};
enum class Original : Tag { name = 1, slot = 2, data_type = 3, format = 4 };
enum class Extra : Tag { type = 1, size = 3 };  // OpBuffer and Workspace
constexpr Tag kDim = 1;
constexpr Tag kAttributeName = 1, kAttributeValue = 2;
constexpr std::uint32_t kGeneralArgument = 1;

// --- writing ---------------------------------------------------------------------------------------------------------

void put_shape(protozero::pbf_writer& out, Tag tag, const std::vector<std::uint64_t>& shape) {
  protozero::pbf_writer message(out, tag);
  message.add_packed_uint64(kDim, shape.begin(), shape.end());
}

template <typename Fields>
void put_tensor(protozero::pbf_writer& out, Tag tag, const ContainerTensor& tensor) {
  protozero::pbf_writer message(out, tag);
  message.add_enum(static_cast<Tag>(Fields::data_type), tensor.data_type);
  message.add_enum(static_cast<Tag>(Fields::format), tensor.format);
  put_shape(message, static_cast<Tag>(Fields::shape), tensor.shape);
  message.add_uint64(static_cast<Tag>(Fields::size), tensor.bytes);
  put_shape(message, static_cast<Tag>(Fields::original_shape), tensor.original_shape);
}

// --- reading ---------------------------------------------------------------------------------------------------------

struct ReadTensor : ContainerTensor {
  std::uint32_t input_type = 0;
  // An exception dump describes the op's general arguments as inputs, but puts their bytes last.
  bool comes_last() const { return input_type == kGeneralArgument && data_type == kCannUndefined; }
};

// Accepts both forms, packed or not. A shape with too many dimensions is damage.
std::vector<std::uint64_t> take_shape(protozero::pbf_reader message) {
  std::vector<std::uint64_t> shape;
  const auto take = [&](std::uint64_t size) {
    if (shape.size() == kMostDimensions) throw protozero::end_of_buffer_exception();
    shape.push_back(size);
  };
  while (message.next(kDim)) {
    if (message.has_wire_type(protozero::pbf_wire_type::length_delimited)) {
      for (const std::uint64_t size : message.get_packed_uint64()) take(size);
    } else if (message.has_wire_type(protozero::pbf_wire_type::varint)) {
      take(message.get_uint64());
    } else {
      message.skip();
    }
  }
  return shape;
}

OriginalOutput take_original(protozero::pbf_reader bytes) {
  OriginalOutput original;
  protozero::pbf_message<Original> message(bytes);
  while (message.next()) {
    const bool is_number = message.has_wire_type(protozero::pbf_wire_type::varint);
    if (message.tag() == Original::name && message.has_wire_type(protozero::pbf_wire_type::length_delimited)) {
      original.op_name = message.get_string();
    } else if (is_number && message.tag() == Original::slot) {
      original.slot = message.get_uint32();
    } else if (is_number && message.tag() == Original::data_type) {
      original.data_type = message.get_enum();
    } else if (is_number && message.tag() == Original::format) {
      original.format = message.get_enum();
    } else {
      message.skip();
    }
  }
  return original;
}

// Takes the next field in `message` if only inputs, or only outputs, have it.
bool take_own_field(protozero::pbf_message<Input>& message, ReadTensor& tensor) {
  if (message.tag() != Input::input_type || !message.has_wire_type(protozero::pbf_wire_type::varint)) return false;
  tensor.input_type = message.get_uint32();
  return true;
}

bool take_own_field(protozero::pbf_message<Output>& message, ReadTensor& tensor) {
  if (message.tag() != Output::original_op || !message.has_wire_type(protozero::pbf_wire_type::length_delimited)) {
    return false;
  }
  tensor.original = take_original(message.get_message());
  return true;
}

template <typename Fields>
ReadTensor take_tensor(protozero::pbf_reader bytes) {
  ReadTensor tensor;
  tensor.format = 0;  // protobuf's default for a missing field
  protozero::pbf_message<Fields> message(bytes);
  while (message.next()) {
    const bool is_number = message.has_wire_type(protozero::pbf_wire_type::varint);
    const bool is_message = message.has_wire_type(protozero::pbf_wire_type::length_delimited);
    if (is_number && message.tag() == Fields::data_type) {
      tensor.data_type = message.get_enum();
    } else if (is_number && message.tag() == Fields::format) {
      tensor.format = message.get_enum();
    } else if (is_number && message.tag() == Fields::size) {
      tensor.bytes = message.get_uint64();
    } else if (is_number && message.tag() == Fields::sub_format) {
      tensor.sub_format = message.get_int32();
    } else if (is_number && message.tag() == Fields::address) {
      tensor.address = message.get_uint64();
    } else if (is_message && message.tag() == Fields::shape) {
      tensor.shape = take_shape(message.get_message());
    } else if (is_message && message.tag() == Fields::original_shape) {
      tensor.original_shape = take_shape(message.get_message());
    } else if (!take_own_field(message, tensor)) {
      message.skip();
    }
  }
  return tensor;
}

ContainerBytes take_extra(protozero::pbf_reader bytes) {
  ContainerBytes extra;
  protozero::pbf_message<Extra> message(bytes);
  while (message.next()) {
    const bool is_number = message.has_wire_type(protozero::pbf_wire_type::varint);
    if (is_number && message.tag() == Extra::type) {
      extra.type = message.get_enum();
    } else if (is_number && message.tag() == Extra::size) {
      extra.bytes = message.get_uint64();
    } else {
      message.skip();
    }
  }
  return extra;
}

std::pair<std::string, std::string> take_attribute(protozero::pbf_reader message) {
  std::pair<std::string, std::string> attribute;
  while (message.next()) {
    if (message.wire_type() != protozero::pbf_wire_type::length_delimited) {
      message.skip();
    } else if (message.tag() == kAttributeName) {
      attribute.first = message.get_string();
    } else if (message.tag() == kAttributeValue) {
      attribute.second = message.get_string();
    } else {
      message.skip();
    }
  }
  return attribute;
}

struct Head {
  Container container;
  std::vector<ReadTensor> inputs, outputs;
};

Head take_head(std::string_view bytes) {
  Head head;
  head.container.version.clear();
  protozero::pbf_message<Dump> message(bytes.data(), bytes.size());
  using protozero::pbf_wire_type;
  const auto is = [&](Dump tag, pbf_wire_type type) { return message.tag() == tag && message.has_wire_type(type); };
  std::size_t parts = 0;
  while (message.next()) {
    if (message.has_wire_type(pbf_wire_type::length_delimited) && ++parts > kMostTensors) {
      throw protozero::end_of_buffer_exception();
    }
    if (is(Dump::version, pbf_wire_type::length_delimited)) {
      head.container.version = message.get_string();
    } else if (is(Dump::dump_time, pbf_wire_type::varint)) {
      head.container.dump_time = message.get_uint64();
    } else if (is(Dump::output, pbf_wire_type::length_delimited)) {
      head.outputs.push_back(take_tensor<Output>(message.get_message()));
    } else if (is(Dump::input, pbf_wire_type::length_delimited)) {
      head.inputs.push_back(take_tensor<Input>(message.get_message()));
    } else if (is(Dump::buffer, pbf_wire_type::length_delimited)) {
      head.container.buffers.push_back(take_extra(message.get_message()));
    } else if (is(Dump::op_name, pbf_wire_type::length_delimited)) {
      head.container.op_name = message.get_string();
    } else if (is(Dump::attribute, pbf_wire_type::length_delimited)) {
      head.container.attributes.push_back(take_attribute(message.get_message()));
    } else if (is(Dump::dfx_message, pbf_wire_type::length_delimited)) {
      head.container.dfx_message = message.get_string();
    } else if (is(Dump::space, pbf_wire_type::length_delimited)) {
      head.container.spaces.push_back(take_extra(message.get_message()));
    } else {
      message.skip();
    }
  }
  return head;
}

// Sets the place of every tensor in the file. Marks those that do not fit, and names the first one.
class Laying {
 public:
  Laying(std::uint64_t begin, std::uint64_t end) : at_(begin), end_(end), total_(begin) {}

  template <typename Item>
  void lay(std::string_view what, std::size_t number, Item& item) {
    constexpr std::uint64_t kNoFile = 1ULL << 63;
    total_ = item.bytes > kNoFile || total_ > kNoFile ? ~0ULL : total_ + item.bytes;
    if (item.bytes > end_ - at_ || (!problem_.empty() && item.bytes > 0)) {
      if (problem_.empty()) {
        problem_ = fmt::format("it is cut off: {}.{} should have {} bytes from byte {} on, the file ends at {}", what,
                               number, item.bytes, at_, end_);
      }
      item.bytes = 0;
      item.is_cut = true;
    }
    item.offset = at_;
    at_ += item.bytes;
  }
  const std::string& problem() const { return problem_; }
  std::uint64_t total() const { return total_; }

 private:
  std::uint64_t at_, end_, total_;
  std::string problem_;
};

void lay_out(Head& head, std::uint64_t begin, std::uint64_t end) {
  Laying laying(begin, end);
  const auto lay_inputs = [&](bool last) {
    for (std::size_t i = 0; i < head.inputs.size(); ++i) {
      if (head.inputs[i].comes_last() == last) laying.lay("input", i, head.inputs[i]);
    }
  };
  lay_inputs(false);
  for (std::size_t i = 0; i < head.outputs.size(); ++i) laying.lay("output", i, head.outputs[i]);
  Container& container = head.container;
  for (std::size_t i = 0; i < container.buffers.size(); ++i) laying.lay("buffer", i, container.buffers[i]);
  for (std::size_t i = 0; i < container.spaces.size(); ++i) laying.lay("space", i, container.spaces[i]);
  lay_inputs(true);
  container.cut = laying.problem();
  container.total_bytes = laying.total();
}

template <typename Number>
Number number_at(std::string_view bytes, std::size_t offset) {
  Number value = 0;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    value |= static_cast<Number>(static_cast<unsigned char>(bytes[offset + i])) << (8 * i);
  }
  return value;
}

}  // namespace

std::string container_head(const Container& container) {
  std::string bytes(kLengthBytes, '\0');
  protozero::pbf_writer message(bytes);
  message.add_string(static_cast<Tag>(Dump::version), container.version);
  message.add_uint64(static_cast<Tag>(Dump::dump_time), container.dump_time);
  for (const ContainerTensor& tensor : container.outputs) {
    put_tensor<Output>(message, static_cast<Tag>(Dump::output), tensor);
  }
  for (const ContainerTensor& tensor : container.inputs) {
    put_tensor<Input>(message, static_cast<Tag>(Dump::input), tensor);
  }
  message.add_string(static_cast<Tag>(Dump::op_name), container.op_name);
  const std::uint64_t length = bytes.size() - kLengthBytes;
  for (std::size_t i = 0; i < kLengthBytes; ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

Result<std::uint64_t> container_head_bytes(std::string_view start, std::uint64_t file_bytes) {
  if (start.size() < kLengthBytes) {
    return corrupt(
        fmt::format("{} bytes are not a dump: it begins with 8 bytes, the length of its header", file_bytes));
  }
  const auto length = number_at<std::uint64_t>(start, 0);
  if (length > file_bytes - kLengthBytes || length > kLongestHead) {
    return corrupt(fmt::format("the length at byte 0 says that the header has {} bytes; {} follow{}", length,
                               file_bytes - kLengthBytes, length > kLongestHead ? ", and no header is so long" : ""));
  }
  return kLengthBytes + length;
}

Result<Container> parse_container(std::string_view start, std::uint64_t file_bytes, bool allow_cut) {
  const Result<std::uint64_t> head_bytes = container_head_bytes(start, file_bytes);
  if (!head_bytes) return head_bytes.error();
  if (*head_bytes > start.size()) return corrupt("the header is cut off");
  const std::string_view message = start.substr(kLengthBytes, *head_bytes - kLengthBytes);
  Head head;
  if (message.size() >= 4 && number_at<std::uint32_t>(message, 0) == kNanoMagic) {
    Result<Container> nano = parse_nano_header(message);
    if (!nano) return nano.error();
    for (ContainerTensor& tensor : nano->inputs) head.inputs.push_back({std::move(tensor)});
    for (ContainerTensor& tensor : nano->outputs) head.outputs.push_back({std::move(tensor)});
    head.container = std::move(*nano);
  } else {
    try {
      head = take_head(message);
    } catch (const protozero::exception& problem) {
      return corrupt(
          fmt::format("the header, bytes 8 to {}, is not a DumpData message: {}", *head_bytes, problem.what()));
    }
  }
  lay_out(head, *head_bytes, file_bytes);
  Container& container = head.container;
  if (!container.cut.empty() && !allow_cut) return corrupt(container.cut);
  container.inputs.assign(head.inputs.begin(), head.inputs.end());
  container.outputs.assign(head.outputs.begin(), head.outputs.end());
  return std::move(container);
}

}  // namespace sonde
