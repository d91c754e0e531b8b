// .pt files read without PyTorch. tests/python/test_torch_files.py reads files that the real PyTorch wrote.
#include "dump/formats/torch_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "catalog/dump_files.h"
#include "dump/formats/pickle.h"
#include "dump/formats/tensor_file.h"
#include "read/measure/values.h"
#include "torch_bytes.h"

namespace sonde {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::SizeIs;

const std::string kSix = bytes_of({1, 2, 3, 4, 5, 6});

std::string tensor_of_six(const std::vector<std::int32_t>& shape, const std::vector<std::int32_t>& strides,
                          std::int32_t offset = 0) {
  return torch_file(pickled_tensor("0", "FloatStorage", 6, offset, shape, strides), {{"0", kSix}});
}

struct Read {
  std::vector<std::int64_t> shape;
  std::vector<double> values;  // in C order
  bool in_place = false;
};

Read read(const std::string& file, std::uint32_t slot = 0) {
  const TemporaryDirectory directory;
  directory.write("a.pt", file);
  const Result<TensorFile> opened = TensorFile::open(directory.path() / "a.pt", {.slot = slot});
  EXPECT_TRUE(opened) << opened.error().message;
  if (!opened) return {};
  const TensorView view = opened->view();
  std::vector<std::byte> bytes(view.bytes());
  copy_c_order(view, bytes.data());
  Read out{opened->shape(), {}, !view.is_c_contiguous()};
  TensorView plain;
  plain.dtype = view.dtype;
  plain.data = bytes.data();
  for (std::int64_t i = 0; i < view.elements(); ++i) out.values.push_back(element_value(plain, i));
  return out;
}

std::string error_of(const std::string& file) {
  const Result<TorchHeader> header = parse_torch(file);
  EXPECT_FALSE(header);
  return header ? "" : header.error().message;
}

TEST(TorchFile, IsReadWithShapeAndValues) {
  const Read tensor = read(tensor_of_six({2, 3}, {3, 1}));
  EXPECT_THAT(tensor.shape, ElementsAre(2, 3));
  EXPECT_THAT(tensor.values, ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(TorchFile, KeepsATransposedTensorInPlaceAndCopiesOneWithGaps) {
  const Read transposed = read(tensor_of_six({3, 2}, {1, 3}));
  EXPECT_TRUE(transposed.in_place);
  EXPECT_THAT(transposed.values, ElementsAre(1, 4, 2, 5, 3, 6));
  const Read gaps = read(tensor_of_six({2}, {2}, 1));
  EXPECT_FALSE(gaps.in_place);
  EXPECT_THAT(gaps.values, ElementsAre(2, 4));
  EXPECT_THAT(read(tensor_of_six({2, 2}, {0, 1})).values, ElementsAre(1, 2, 1, 2));  // expanded
}

TEST(TorchFile, HoldsTensorsOfDictionariesAndListsByTheirNames) {
  const std::string one = pickled_tensor("0", "FloatStorage", 6, 0, {1}, {1});
  const std::string two = pickled_tensor("0", "FloatStorage", 6, 1, {1}, {1});
  const std::string file = torch_file(
      "}(" + pickled_text("a") + one + pickled_text("b") + "](" + two + "N" + pickled_number(7) + "eu", {{"0", kSix}});
  const Result<TorchHeader> header = parse_torch(file);
  ASSERT_TRUE(header) << header.error().message;
  ASSERT_THAT(header->tensors, SizeIs(2));
  EXPECT_EQ(header->tensors[0].name, "a");
  EXPECT_EQ(header->tensors[1].name, "b.0");
  EXPECT_THAT(read(file, 1).values, ElementsAre(2));
}

TEST(TorchFile, RunsNothingAndSaysWhatThePickleCalls) {
  const std::string system = pickled_global("os", "system") + "(" + pickled_text("touch /tmp/pwned") + "tR";
  EXPECT_THAT(error_of(torch_file(system, {})), HasSubstr("opcode 'R' calls os.system, which is not allowed"));
  const std::string in_stack = pickled_text("builtins") + pickled_text("eval") + "\x93(" + pickled_text("1") + "tR";
  EXPECT_THAT(error_of(torch_file(in_stack, {})), HasSubstr("calls builtins.eval"));
  EXPECT_THAT(error_of(torch_file(pickled_global("os", "popen") + ")\x81", {})),
              HasSubstr("opcode 0x81 asks for an object of os.popen"));
  EXPECT_THAT(error_of(torch_file("(" + pickled_text("ls") + "ios\nsystem\n", {})), HasSubstr("os.system"));
  EXPECT_THAT(error_of(torch_file(pickled_global("a", "B") + "}b", {})), HasSubstr("opcode 'b'"));
  // An allowed function does not make its arguments allowed.
  const std::string hidden = pickled_global("torch._tensor", "_rebuild_from_type_v2") + "(" +
                             pickled_global("os", "system") + pickled_global("torch", "Tensor") + "(" +
                             pickled_text("ls") + "tNtR";
  EXPECT_THAT(error_of(torch_file(hidden, {})), HasSubstr("calls os.system"));
}

TEST(TorchFile, MayNameAClassThatIsNotCalled) {
  const std::string object = "](" + pickled_global("my.module", "Config") + pickled_number(1) + "e";
  const Result<TorchHeader> header = parse_torch(torch_file(object, {}));
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_THAT(header->tensors, SizeIs(0));
}

TEST(TorchFile, RefusesTensorsOutsideTheirStorage) {
  EXPECT_THAT(error_of(tensor_of_six({2, 3}, {3, 1}, 1)), HasSubstr("does not fit into its storage of 24 bytes"));
  EXPECT_THAT(error_of(tensor_of_six({2, 2147483647}, {2147483647, 2147483647})), HasSubstr("does not fit"));
  EXPECT_THAT(error_of(tensor_of_six({1}, {-1})), HasSubstr("arguments"));
  EXPECT_THAT(error_of(torch_file(pickled_tensor("7", "FloatStorage", 6, 0, {1}, {1}), {{"0", kSix}})),
              HasSubstr("has no 'archive/data/7'"));
}

TEST(TorchFile, RefusesATensorThatOnlyRepeatsItself) {
  const TemporaryDirectory directory;
  directory.write("a.pt", tensor_of_six({2147483647, 2147483647, 8}, {0, 0, 0}));
  const Result<TensorFile> file = TensorFile::open(directory.path() / "a.pt");
  ASSERT_FALSE(file);
  EXPECT_THAT(file.error().message, HasSubstr("expands the"));
}

TEST(TorchFile, RefusesCompressedEntries) {
  const ZipParts parts = {{"a/data.pkl", pickle_of("N")}};
  EXPECT_THAT(error_of(zip_of(parts, 8)), HasSubstr("compressed"));
  EXPECT_THAT(error_of(zip_of({{"a/other", ""}})), HasSubstr("no data.pkl"));
}

TEST(TorchFile, SurvivesPicklesThatGrowOrLoop) {
  // A list in itself; lists of lists, each twice in the next; a dictionary that is its own value.
  EXPECT_TRUE(read_pickle(pickle_of("]q\1h\1a")));
  std::string twice = "]q";
  twice.push_back('\0');
  for (char i = 1; i < 100; ++i) {
    twice += "](h";
    twice.push_back(static_cast<char>(i - 1));
    twice += "h";
    twice.push_back(static_cast<char>(i - 1));
    twice += "eq";
    twice.push_back(i);
  }
  EXPECT_TRUE(read_pickle(pickle_of(twice)));
  EXPECT_TRUE(read_pickle(pickle_of("}q\1(" + pickled_text("a") + "h\1u")));
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "]";
  for (int i = 1; i < 100000; ++i) deep += "a";
  EXPECT_THAT(read_pickle(pickle_of(deep)).error().message, HasSubstr("nested deeper than"));
}

TEST(TorchFile, IsRefusedWhereverItIsCutOff) {
  const std::string file = tensor_of_six({2, 3}, {3, 1});
  for (std::size_t length = 0; length < file.size(); ++length) {
    const Result<TorchHeader> header = parse_torch(file.substr(0, length));
    ASSERT_FALSE(header) << length;
    ASSERT_FALSE(header.error().message.empty());
  }
}

TEST(TorchFile, BeforeOnePointSixIsReadToo) {
  const std::string magic(
      "\x80\x02\x8a\x0al\xfc\x9c"
      "F\xf9 j\xa8P\x19.",
      15);
  const std::string version = pickle_of(pickled_number(1001)), machine = pickle_of("}");
  const std::string keys = pickle_of("](" + pickled_text("94") + "e");
  const std::string file = magic + version + machine + pickle_of(pickled_tensor("94", "FloatStorage", 6, 2, {4}, {1})) +
                           keys + std::string("\6\0\0\0\0\0\0\0", 8) + kSix;
  EXPECT_THAT(read(file).values, ElementsAre(3, 4, 5, 6));
  for (std::size_t length = 0; length < file.size(); ++length) EXPECT_FALSE(parse_torch(file.substr(0, length)));
}

}  // namespace
}  // namespace sonde
