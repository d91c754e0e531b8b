#include "dump/formats/container.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "dump/formats/cann_types.h"
#include "dump/formats/tensor_file.h"
#include "ground/tensor/format.h"
#include "writer/dump_fixture.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ContainerTensor described(std::vector<std::uint64_t> shape, std::int32_t type, std::uint64_t bytes) {
  ContainerTensor tensor;
  tensor.data_type = type;
  tensor.shape = tensor.original_shape = std::move(shape);
  tensor.bytes = bytes;
  return tensor;
}

// Two inputs and an output, and their bytes.
std::string sample() {
  Container container;
  container.dump_time = 1700000000000001;
  container.op_name = "Default/network-Net/add-op0";
  container.inputs = {described({2, 2}, 1, 16), described({3}, 4, 3)};
  container.outputs = {described({}, 12, 8)};
  std::string file = container_head(container);
  const float matrix[] = {1, 2, 3, 4};
  file.append(reinterpret_cast<const char*>(matrix), sizeof matrix);
  file.append("\x07\x08\x09");
  const double scalar = 2.5;
  return file.append(reinterpret_cast<const char*>(&scalar), sizeof scalar);
}

std::string complaint(const std::string& bytes) {
  const Result<Container> container = parse_container(bytes, bytes.size());
  return container ? "" : container.error().message;
}

struct Files : testing::Test {
  test::TemporaryDirectory directory;
  std::filesystem::path file(const std::string& bytes, const std::string& name = "Add.x.0.0.1700000000000001") {
    std::ofstream(directory.path() / name, std::ios::binary) << bytes;
    return directory.path() / name;
  }
};
using ContainerFile = Files;
using RawFile = Files;

TEST(Container, IsReadBack) {
  const std::string bytes = sample();
  const Result<Container> container = parse_container(bytes, bytes.size());
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_EQ(container->version, "2.0");
  EXPECT_EQ(container->dump_time, 1700000000000001U);
  EXPECT_EQ(container->op_name, "Default/network-Net/add-op0");
  ASSERT_EQ(container->inputs.size(), 2U);
  ASSERT_EQ(container->outputs.size(), 1U);
  EXPECT_THAT(container->inputs[0].shape, ElementsAre(2, 2));
  EXPECT_EQ(container->outputs[0].offset + 8, bytes.size());
}

TEST(ContainerFormat, IsTheOneThatCannGivesATensorOfSoManyDimensions) {
  EXPECT_EQ(named_for_cann(Format::default_format, 3), Format::nd);
  EXPECT_EQ(named_for_cann(Format::default_format, 4), Format::nchw);
  EXPECT_EQ(named_for_cann(Format::default_format, 5), Format::ncdhw);
  EXPECT_EQ(named_for_cann(Format::default_format, 6), Format::nd);
  EXPECT_EQ(named_for_cann(Format::nhwc, 4), Format::nhwc);
}

TEST_F(ContainerFile, GivesEachSlotItsElements) {
  const std::filesystem::path path = file(sample());
  const Result<TensorFile> first = TensorFile::open(path, {.is_input = true, .slot = 0});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(summarize(first->view()).sum, 10);
  const Result<TensorFile> second = TensorFile::open(path, {.is_input = true, .slot = 1});
  ASSERT_TRUE(second);
  EXPECT_EQ(second->dtype(), DType::uint8);
  EXPECT_EQ(summarize(second->view()).max, 9);
  const Result<TensorFile> third = TensorFile::open(path, {.is_input = false, .slot = 0});  // at an odd offset
  ASSERT_TRUE(third);
  EXPECT_TRUE(third->shape().empty());
  EXPECT_EQ(summarize(third->view()).sum, 2.5);
}

TEST_F(ContainerFile, SaysWhichSlotItDoesNotHave) {
  const Result<TensorFile> none = TensorFile::open(file(sample()), {.is_input = false, .slot = 1});
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, ErrorCode::not_found);
  EXPECT_THAT(none.error().message, HasSubstr("no output.1: it holds 2 inputs and 1 outputs"));
}

// Every type has a number that gives the type back, except the two that CANN lacks.
TEST_F(ContainerFile, KeepsEveryType) {
  for (const DTypeInfo& row : all_dtypes()) {
    if (row.dtype == DType::undefined) continue;
    const std::int32_t number = cann_type(row.dtype);
    const bool unknown = row.dtype == DType::float8_e4m3fnuz || row.dtype == DType::float8_e5m2fnuz;
    EXPECT_EQ(number == kCannUndefined, unknown) << row.lower;
    EXPECT_EQ(dtype_of_cann(number), unknown ? DType::undefined : row.dtype) << row.lower;
    Container container;
    container.outputs = {described({2, 3}, number, 6ULL * row.item_bytes)};
    std::string bytes = container_head(container);
    for (unsigned i = 0; i < 6U * row.item_bytes; ++i) bytes.push_back(static_cast<char>(i));
    const Result<TensorFile> read = TensorFile::open(file(bytes), {.dtype = row.dtype});
    ASSERT_TRUE(read) << row.lower << ": " << read.error().message;
    EXPECT_EQ(read->dtype(), row.dtype);
    const TensorView view = read->view();
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.data), view.bytes()),
              bytes.substr(bytes.size() - view.bytes()));
  }
}

TEST_F(ContainerFile, OfAnUndefinedTypeIsItsBytes) {
  Container container;
  container.outputs = {described({5, 7}, kCannUndefined, 3)};
  const Result<TensorFile> read = TensorFile::open(file(container_head(container) + "abc"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_THAT(read->shape(), ElementsAre(3));
}

TEST_F(ContainerFile, DecodesElementsOfLessThanAByte) {
  Container container;
  container.outputs = {described({3}, 28, 2)};  // INT4
  const Result<TensorFile> read = TensorFile::open(file(container_head(container) + "\x8F\x07"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->dtype(), DType::int8);
  const auto* elements = reinterpret_cast<const signed char*>(read->view().data);
  EXPECT_THAT(std::vector<int>(elements, elements + 3), ElementsAre(-1, -8, 7));
}

TEST_F(ContainerFile, OfATypeWithoutNumbersIsRefusedByName) {
  Container container;
  container.outputs = {described({2}, 13, 1)};
  const Result<TensorFile> read = TensorFile::open(file(container_head(container) + "a"));
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::unsupported);
  EXPECT_THAT(read.error().message, HasSubstr("output.0: element type STRING is not numeric"));
}

TEST(Container, ThatIsCutOffSaysWhere) {
  const std::string whole = sample();
  const std::string bytes = whole.substr(0, whole.size() - 9);
  const std::string at = std::to_string(whole.size() - 11);
  EXPECT_EQ(complaint(bytes), "it is cut off: input.1 should have 3 bytes from byte " + at + " on, the file ends at " +
                                  std::to_string(bytes.size()));
  EXPECT_THAT(complaint("abc"), HasSubstr("3 bytes are not a dump"));
}

TEST(Container, WhoseLengthLiesIsRefusedBeforeMemoryIsAskedFor) {
  std::string bytes = sample();
  bytes.replace(0, 8, 8, '\x7f');
  EXPECT_THAT(complaint(bytes), HasSubstr("the length at byte 0 says that the header has 9187201950435737471 bytes"));
  Container huge;
  huge.outputs = {described({}, 1, ~0ULL)};
  EXPECT_THAT(complaint(container_head(huge)), HasSubstr("output.0 should have 18446744073709551615 bytes"));
}

TEST_F(ContainerFile, WhoseShapeLiesIsRefused) {
  for (const std::uint64_t size : {std::uint64_t{5}, std::uint64_t{1} << 62, ~std::uint64_t{0}}) {
    Container container;
    container.outputs = {described({size, 4}, 1, 16)};
    const Result<TensorFile> read = TensorFile::open(file(container_head(container) + std::string(16, 'x')));
    ASSERT_FALSE(read) << size;
    EXPECT_EQ(read.error().code, ErrorCode::corrupt);
    EXPECT_THAT(read.error().message, HasSubstr("output.0: the header says 16 bytes"));
  }
}

TEST(Container, PassesOverBytesAtItsEndAndFieldsItDoesNotKnow) {
  EXPECT_EQ(complaint(sample() + "trailing"), "");
  std::string bytes = sample();
  const std::string unknown("\xa2\x06\x03xyz", 6);  // field 100, three bytes
  bytes.insert(8, unknown);
  bytes[0] = static_cast<char>(bytes[0] + 6);
  EXPECT_EQ(complaint(bytes), "");
}

void put(std::string& bytes, std::uint64_t value, int count) {
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<char>(value >> (8 * i)));
}

// A small device's file: an input of float16 with a shape, 2 bytes, and an output of uint8 without.
std::string nano_sample() {
  std::string header;
  put(header, 0x5A5A5A5A, 4);
  put(header, 1, 4);
  for (const bool is_input : {true, false}) {
    std::string record;
    put(record, is_input ? 1 : 4, 4);                                 // GE's numbers
    put(record, 2, 8);                                                // format, kind of address
    if (!is_input) record.append(12, '\0');                           // of the original output
    record.append(16, '\0');                                          // address, offset
    put(record, 2, 8);                                                // bytes
    put(record, is_input ? 16 : 0, 4);                                // of the following bytes
    if (is_input) put(record, 0 | 8ULL << 32, 8), put(record, 1, 8);  // the shape: tag, length, one size
    put(header, is_input ? 4 : 5, 4);
    put(header, record.size() + 4, 4);
    put(header, 1, 4);
    header += record;
  }
  std::string file;
  put(file, header.size(), 8);
  return file + header + "ABCD";
}

TEST(Container, OfANanoDeviceHasCannsTypes) {
  const std::string bytes = nano_sample();
  const Result<Container> container = parse_container(bytes, bytes.size());
  ASSERT_TRUE(container) << container.error().message;
  EXPECT_TRUE(container->is_nano);
  ASSERT_EQ(container->inputs.size(), 1U);
  EXPECT_EQ(container->inputs[0].data_type, cann_type(DType::float16));
  EXPECT_THAT(container->inputs[0].shape, ElementsAre(1));
  EXPECT_EQ(container->inputs[0].offset, bytes.size() - 4);
  ASSERT_EQ(container->outputs.size(), 1U);
  EXPECT_EQ(container->outputs[0].data_type, cann_type(DType::uint8));
  EXPECT_THAT(container->outputs[0].shape, ElementsAre(2));  // all its bytes
  EXPECT_EQ(container->total_bytes, bytes.size());
}

TEST(Container, OfANanoDeviceSurvivesDamage) {
  const std::string whole = nano_sample();
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_FALSE(parse_container(whole.substr(0, length), length)) << length;
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(whole.data()), length);
  }
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    bytes[12 + random() % (bytes.size() - 12)] = static_cast<char>(random());
    LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
  }
}

TEST(Container, ThatIsCutOffGivesWhatIsWholeWhenAsked) {
  const std::string whole = sample();
  const std::string bytes = whole.substr(0, whole.size() - 1);
  const Result<Container> container = parse_container(bytes, bytes.size(), true);
  ASSERT_TRUE(container);
  EXPECT_FALSE(container->inputs[0].is_cut);
  EXPECT_TRUE(container->outputs[0].is_cut);
  EXPECT_THAT(container->cut, HasSubstr("output.0 should have 8 bytes"));
  EXPECT_EQ(container->total_bytes, whole.size());
}

// Any damage must give an answer, and no read outside the file.
TEST_F(ContainerFile, SurvivesDamage) {
  const std::string whole = sample();
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = whole;
    for (std::uint32_t edits = 1 + random() % 4; edits > 0; --edits) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    if (random() % 3 == 0) bytes.resize(random() % bytes.size());
    EXPECT_EQ(LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()), 0);
    const Result<Container> container = parse_container(bytes, bytes.size());
    if (!container) continue;
    if (round % 10 != 0) continue;
    const std::filesystem::path path = file(bytes);
    for (std::uint32_t slot = 0; slot < container->inputs.size() && slot < 4; ++slot) {
      const Result<TensorFile> read = TensorFile::open(path, {.is_input = true, .slot = slot});
      if (read && info(read->dtype()).has_statistics) {
        EXPECT_EQ(static_cast<std::int64_t>(summarize(read->view()).count), read->view().elements());
      }
    }
  }
}

TEST_F(RawFile, TakesTypeAndShapeFromItsName) {
  const Result<TensorFile> read =
      TensorFile::open(file(std::string(24, '\0'), "Default--add-op0_output_0_shape_2_3_Float32_DefaultFormat.bin"));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->dtype(), DType::float32);
  EXPECT_THAT(read->shape(), ElementsAre(2, 3));
}

TEST_F(RawFile, OfAnotherSizeThanItsNameSaysIsRefused) {
  const Result<TensorFile> read =
      TensorFile::open(file("abc", "Default--add-op0_output_0_shape_2_3_Float32_DefaultFormat.bin"));
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("it has 3 bytes; (2,3) of float32 take 24"));
  EXPECT_THAT(TensorFile::open(file("abc", "x.bin")).error().message, HasSubstr("a file without a header"));
}

}  // namespace
}  // namespace sonde
