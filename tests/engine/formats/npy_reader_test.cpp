#include "dump/formats/npy_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "catalog/dump_files.h"
#include "dump/formats/npy.h"
#include "read/measure/values.h"

namespace sonde {
namespace {

using testing::HasSubstr;

Result<NpyHeader> header_of(const std::string& file) { return parse_npy_header(file, file.size()); }

std::vector<double> values_of(const NpyFile& file) {
  const TensorView view = file.view();
  std::vector<double> values;
  for (std::int64_t i = 0; i < view.elements(); ++i) values.push_back(element_value(view, i));
  return values;
}

TEST(NpyReader, ReadsWhatTheWriterWrites) {
  for (const DTypeInfo& row : all_dtypes()) {
    if (row.npy.empty()) continue;
    const std::int64_t shape[] = {2, 3};
    const std::string data(6 * row.file_bytes, '\0');
    const std::string file = npy_header(row.dtype, shape, false) + data;
    const Result<NpyHeader> header = header_of(file);
    ASSERT_TRUE(header) << row.name << ": " << header.error().message;
    EXPECT_EQ(info(header->dtype).npy, row.npy) << row.name;
    EXPECT_THAT(header->shape, testing::ElementsAre(2, 3));
    EXPECT_EQ(header->data_bytes, data.size());
    EXPECT_EQ(header->data_offset, file.size() - data.size());
  }
}

TEST(NpyReader, KnowsRawBfloat16) {
  for (const char* descr : {"<E2", "<T2"}) {
    const Result<NpyHeader> header = header_of(npy(descr, "(3,)", "123456"));
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->dtype, DType::bfloat16);
  }
}

TEST(NpyReader, ReadsVersionsTwoAndThree) {
  const std::string text = "{\"descr\": \"<i4\", \"fortran_order\": False, \"shape\": (1L,)}\n";
  for (const char version : {'\2', '\3'}) {
    std::string file("\x93NUMPY", 6);
    file += {version, '\0', static_cast<char>(text.size()), '\0', '\0', '\0'};
    file += text + "abcd";
    const Result<NpyHeader> header = header_of(file);
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->dtype, DType::int32);
    EXPECT_THAT(header->shape, testing::ElementsAre(1));
  }
}

TEST(NpyReader, TurnsBigEndianElements) {
  const TemporaryDirectory directory;
  directory.write("a.npy", npy(">f4", "(2,)", std::string("\x3f\x80\x00\x00\xc0\x00\x00\x00", 8)));
  const Result<NpyFile> file = NpyFile::open(directory.path() / "a.npy");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_THAT(values_of(*file), testing::ElementsAre(1.0, -2.0));
}

TEST(NpyReader, GivesFortranOrderAsStrides) {
  const TemporaryDirectory directory;
  directory.write("a.npy", npy("<f4", "(2, 3)", bytes_of({1, 4, 2, 5, 3, 6}), "True"));
  const Result<NpyFile> file = NpyFile::open(directory.path() / "a.npy");
  ASSERT_TRUE(file) << file.error().message;
  const Corner corner = corner_of(file->view(), 2, 3);
  EXPECT_THAT(corner.values[0], testing::ElementsAre("1", "2", "3"));
  EXPECT_THAT(corner.values[1], testing::ElementsAre("4", "5", "6"));
}

TEST(NpyReader, ReadsAScalarAndAnEmptyTensor) {
  const Result<NpyHeader> scalar = header_of(npy("<f4", "()", "1234"));
  ASSERT_TRUE(scalar);
  EXPECT_EQ(scalar->shape.size(), 0);
  const Result<NpyHeader> empty = header_of(npy("<f4", "(0, 4611686018427387904, 4611686018427387904)", ""));
  ASSERT_TRUE(empty);
  EXPECT_EQ(empty->data_bytes, 0);
}

TEST(NpyReader, RefusesAFileThatIsCutOff) {
  const Result<NpyHeader> header = header_of(npy("<f4", "(2,3,)", "only a few"));
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code, ErrorCode::corrupt);
  EXPECT_THAT(header.error().message, HasSubstr("(2,3) does not fit into the 10 bytes"));
}

TEST(NpyReader, RefusesShapesWhoseSizeIsMoreThanANumberHolds) {
  EXPECT_FALSE(header_of(npy("<f8", "(4294967296, 4294967296)", "12345678")));
  EXPECT_FALSE(header_of(npy("<f8", "(4611686018427387904,)", "12345678")));
  EXPECT_FALSE(header_of(npy("<f8", "(99999999999999999999,)", "12345678")));
  EXPECT_FALSE(header_of(npy("<f8", "(-1,)", "12345678")));
}

TEST(NpyReader, SaysWhichElementTypeIsNone) {
  const Result<NpyHeader> header = header_of(npy("<U7", "(1,)", "1234567"));
  ASSERT_FALSE(header);
  EXPECT_EQ(header.error().code, ErrorCode::unsupported);
  EXPECT_THAT(header.error().message, HasSubstr("'<U7'"));
}

TEST(NpyReader, RefusesWhatIsNoHeader) {
  const char* texts[] = {"", "\x93NUMPY", "PK\x03\x04 an archive", "[1, 2, 3] and more text"};
  for (const char* text : texts) EXPECT_FALSE(header_of(text)) << text;
  const char* headers[] = {"{}",
                           "{'descr': '<f4'}",
                           "{'descr': [('a', '<f4')], ",
                           "{'descr'",
                           "{'descr': '<f4', 'fortran_order': 0, 'shape': ()}",
                           "{'descr': '<f4', 'fortran_order': False, 'shape': 3}"};
  for (const char* text : headers) {
    std::string file("\x93NUMPY\x01\x00", 8);
    file += {static_cast<char>(std::string_view(text).size()), '\0'};
    EXPECT_FALSE(header_of(file + text + "12345678")) << text;
  }
}

TEST(NpyReader, SurvivesRandomDamage) {
  std::mt19937_64 random(11);
  const std::string good = npy("<f4", "(2,3,)", bytes_of({1, 2, 3, 4, 5, 6}));
  for (int round = 0; round < 20000; ++round) {
    std::string file = good;
    for (std::uint64_t i = 1 + random() % 3; i > 0; --i) {
      file[random() % 80] = static_cast<char>(random());
    }
    if (random() % 4 == 0) file.resize(random() % file.size());
    const Result<NpyHeader> header = header_of(file);
    if (!header) continue;
    EXPECT_LE(header->data_offset + header->data_bytes, file.size());
  }
}

TEST(NpyReader, NamesTheFile) {
  const TemporaryDirectory directory;
  directory.write("bad.npy", "nothing");
  directory.write("empty.npy", "");
  for (const char* name : {"bad.npy", "empty.npy", "missing.npy", ""}) {
    const Result<NpyFile> file = NpyFile::open(directory.path() / name);
    ASSERT_FALSE(file) << name;
    EXPECT_THAT(file.error().message, HasSubstr((directory.path() / name).string()));
  }
}

}  // namespace
}  // namespace sonde
