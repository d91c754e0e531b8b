#include "store/container.h"

#include <fmt/format.h>

#include <cstddef>
#include <protozero/pbf_message.hpp>
#include <protozero/pbf_writer.hpp>

#include "store/cann_types.h"

namespace sonde {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::uint64_t kLongestHead = 64 << 20;  // an op has hundreds of tensors, not millions
constexpr std::size_t kMostDimensions = 64;
constexpr std::uint32_t kNanoMagic = 0x5A5A5A5A;

using Tag = protozero::pbf_tag_type;

// Field numbers, message by message.
enum class Dump : Tag { version = 1, dump_time = 2, output = 3, input = 4, buffer = 5, op_name = 6, space = 8 };
// OpInput counts differently from OpOutput after `shape`.
enum class Output : Tag { data_type = 1, format = 2, shape = 3, size = 6, original_shape = 7 };
enum class Input : Tag { data_type = 1, format = 2, shape = 3, size = 5, original_shape = 6, input_type = 11 };
constexpr Tag kDim = 1;
constexpr Tag kSizeOfExtra = 3;  // OpBuffer and Workspace
constexpr std::uint32_t kGeneralArgument = 1;

Error corrupt(std::string message) { return Error{ErrorCode::corrupt, std::move(message)}; }

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

// Packed or not. A shape with more dimensions than anything has is damage.
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

template <typename Fields>
ReadTensor take_tensor(protozero::pbf_reader bytes) {
  ReadTensor tensor;
  tensor.format = 0;  // as protobuf has it where nothing stands
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
    } else if (is_message && message.tag() == Fields::shape) {
      tensor.shape = take_shape(message.get_message());
    } else if (is_message && message.tag() == Fields::original_shape) {
      tensor.original_shape = take_shape(message.get_message());
    } else if constexpr (std::is_same_v<Fields, Input>) {
      if (is_number && message.tag() == Fields::input_type) {
        tensor.input_type = message.get_uint32();
      } else {
        message.skip();
      }
    } else {
      message.skip();
    }
  }
  return tensor;
}

std::uint64_t take_extra(protozero::pbf_reader message) {
  std::uint64_t bytes = 0;
  while (message.next()) {
    if (message.tag_and_type() == protozero::tag_and_type(kSizeOfExtra, protozero::pbf_wire_type::varint)) {
      bytes = message.get_uint64();
    } else {
      message.skip();
    }
  }
  return bytes;
}

struct Head {
  Container container;
  std::vector<ReadTensor> inputs, outputs;
  std::vector<std::uint64_t> buffers, spaces;
};

Head take_head(std::string_view bytes) {
  Head head;
  head.container.version.clear();
  protozero::pbf_message<Dump> message(bytes.data(), bytes.size());
  using protozero::pbf_wire_type;
  const auto is = [&](Dump tag, pbf_wire_type type) { return message.tag() == tag && message.has_wire_type(type); };
  while (message.next()) {
    if (is(Dump::version, pbf_wire_type::length_delimited)) {
      head.container.version = message.get_string();
    } else if (is(Dump::dump_time, pbf_wire_type::varint)) {
      head.container.dump_time = message.get_uint64();
    } else if (is(Dump::output, pbf_wire_type::length_delimited)) {
      head.outputs.push_back(take_tensor<Output>(message.get_message()));
    } else if (is(Dump::input, pbf_wire_type::length_delimited)) {
      head.inputs.push_back(take_tensor<Input>(message.get_message()));
    } else if (is(Dump::buffer, pbf_wire_type::length_delimited)) {
      head.buffers.push_back(take_extra(message.get_message()));
    } else if (is(Dump::op_name, pbf_wire_type::length_delimited)) {
      head.container.op_name = message.get_string();
    } else if (is(Dump::space, pbf_wire_type::length_delimited)) {
      head.spaces.push_back(take_extra(message.get_message()));
    } else {
      message.skip();
    }
  }
  return head;
}

// Gives every tensor its place in the file; stops at the first that does not fit.
class Laying {
 public:
  Laying(std::uint64_t begin, std::uint64_t end) : at_(begin), end_(end) {}

  void lay(std::string_view what, std::size_t number, std::uint64_t bytes, std::uint64_t* offset = nullptr) {
    if (!problem_.empty()) return;
    if (bytes > end_ - at_) {
      problem_ = fmt::format("it is cut off: {}.{} should have {} bytes from byte {} on, the file ends at {}", what,
                             number, bytes, at_, end_);
      return;
    }
    if (offset != nullptr) *offset = at_;
    at_ += bytes;
  }
  const std::string& problem() const { return problem_; }

 private:
  std::uint64_t at_, end_;
  std::string problem_;
};

std::string lay_out(Head& head, std::uint64_t begin, std::uint64_t end) {
  Laying laying(begin, end);
  const auto lay = [&](std::string_view what, std::vector<ReadTensor>& tensors, bool last) {
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (tensors[i].comes_last() == last) laying.lay(what, i, tensors[i].bytes, &tensors[i].offset);
    }
  };
  lay("input", head.inputs, false);
  lay("output", head.outputs, false);
  for (std::size_t i = 0; i < head.buffers.size(); ++i) laying.lay("buffer", i, head.buffers[i]);
  for (std::size_t i = 0; i < head.spaces.size(); ++i) laying.lay("space", i, head.spaces[i]);
  lay("input", head.inputs, true);
  return laying.problem();
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
    return corrupt(fmt::format("{} bytes are no dump: it begins with 8 bytes, the length of its header", file_bytes));
  }
  if (start.size() >= kLengthBytes + 4 && number_at<std::uint32_t>(start, kLengthBytes) == kNanoMagic) {
    return Error{ErrorCode::unsupported,
                 "the dump of a nano device (5a5a5a5a at byte 8); this build reads CANN's ordinary ones"};
  }
  const auto length = number_at<std::uint64_t>(start, 0);
  if (length > file_bytes - kLengthBytes || length > kLongestHead) {
    return corrupt(fmt::format("the length at byte 0 says that the header has {} bytes; {} follow{}", length,
                               file_bytes - kLengthBytes, length > kLongestHead ? ", and no header is so long" : ""));
  }
  return kLengthBytes + length;
}

Result<Container> parse_container(std::string_view start, std::uint64_t file_bytes) {
  const Result<std::uint64_t> head_bytes = container_head_bytes(start, file_bytes);
  if (!head_bytes) return head_bytes.error();
  if (*head_bytes > start.size()) return corrupt("the header is cut off");
  Head head;
  try {
    head = take_head(start.substr(kLengthBytes, *head_bytes - kLengthBytes));
  } catch (const protozero::exception& problem) {
    return corrupt(fmt::format("the header, bytes 8 to {}, is no DumpData message: {}", *head_bytes, problem.what()));
  }
  if (std::string problem = lay_out(head, *head_bytes, file_bytes); !problem.empty()) return corrupt(problem);
  Container& container = head.container;
  container.inputs.assign(head.inputs.begin(), head.inputs.end());
  container.outputs.assign(head.outputs.begin(), head.outputs.end());
  return std::move(container);
}

}  // namespace sonde
