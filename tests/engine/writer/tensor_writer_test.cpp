#include "record/writer/tensor_writer.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cerrno>

#include "dump/formats/pack.h"
#include "dump_fixture.h"
#include "ground/files/mapped_file.h"
#include "ground/files/write_method.h"

namespace sonde {
namespace {

using test::files_below;
using test::inode_of;
using test::kTime;

std::atomic<int> links_left{0};

int link_until_full(int from, const char* name, int to, const char* new_name, int flags) {
  if (links_left.fetch_sub(1) > 0) return ::linkat(from, name, to, new_name, flags);
  errno = EMLINK;
  return -1;
}

int no_links(int, const char*, int, const char*, int) {
  errno = EPERM;
  return -1;
}

class TensorFiles : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  Plan plan = test::plan_for(directory.path());
  Layout layout = Layout::make(plan, RunInfo{});
  BlockPool pool{64 << 20};
  TensorWriterOptions options;
  std::optional<TensorWriter> writer;
  std::vector<StoredFile> stored;
  OpName op{1, "add", "Default/add-op0"};
  std::uint64_t sequence = 0;

  void open() {
    const std::filesystem::path aside = layout.own_directory() / "partial";
    ASSERT_TRUE(make_directories(aside));
    Result<TensorWriter> opened = TensorWriter::open(layout, aside, options);
    ASSERT_TRUE(opened) << opened.error().message;
    writer = std::move(*opened);
  }

  TensorRecord tensor(std::uint64_t content, const std::string& bytes) {
    TensorRecord out;
    out.slot = static_cast<std::uint32_t>(sequence);
    out.dtype = DType::uint8;
    const std::int64_t size = bytes.empty() ? 4 : static_cast<std::int64_t>(bytes.size());
    out.shape = Dims({&size, 1});
    out.content = content;
    out.timestamp_us = kTime;
    if (!bytes.empty()) {
      out.bytes = pool.take(bytes.size());
      std::memcpy(out.bytes->data, bytes.data(), bytes.size());
    }
    return out;
  }

  // The path of the file for `one`, relative to the rank directory; empty if there is none.
  std::string store(TensorRecord one, StepId step = {0, 0}) {
    stored.clear();
    Record record;
    record.op = &op;
    record.step = step;
    record.sequence = sequence++;
    record.tensors.push_back(std::move(one));
    const Status status = writer->store(record, stored);
    EXPECT_TRUE(status) << status.error().message;
    for (const StoredFile& file : stored) {
      if (file.sequence == record.sequence) return file.path;
    }
    return {};
  }

  std::filesystem::path full(const std::string& path) { return layout.rank_directory() / path; }
  std::string data(const std::string& path) { return test::read_text(full(path)).substr(128); }
};

TEST_F(TensorFiles, AreNamedByTheLayoutAndReadOnly) {
  open();
  const std::string path = store(tensor(1, "abcd"));
  EXPECT_EQ(path, "Net/0/0/add.Default_add-op0.0.0.1700000000000000.output.0.DefaultFormat.UInt8.npy");
  EXPECT_EQ(data(path), "abcd");
  EXPECT_EQ(test::mode_of(full(path)), 0400U);
  EXPECT_EQ(pool.in_flight_bytes(), 0U);
}

TEST_F(TensorFiles, OfEqualContentAreOneFile) {
  open();
  const std::string first = store(tensor(1, "abcd"));
  const std::string again = store(tensor(1, ""), {0, 1});
  EXPECT_EQ(inode_of(full(first)), inode_of(full(again)));
  EXPECT_EQ(writer->bytes_written(), 4U);
  EXPECT_EQ(writer->files(), 2U);
}

// Large ones go past the page cache, through it, or in two parts: the same file either way.
TEST_F(TensorFiles, OfAnySizeHoldTheBytes) {
  open();
  std::uint64_t content = 1;
  for (const std::size_t size : {std::size_t{100'000}, WriteMethod::kLeastBytes - 1, WriteMethod::kLeastBytes,
                                 WriteMethod::kLeastBytes + 3968, std::size_t{1'000'003}, std::size_t{4 << 20}}) {
    for (int i = 0; i < 3; ++i, ++content) {  // the first is written directly, the second is not
      std::string bytes(size, static_cast<char>('a' + i));
      bytes.front() = '<';
      bytes.back() = '>';
      bytes[size / 2] = static_cast<char>(content);
      EXPECT_EQ(data(store(tensor(content, bytes))), bytes) << size;
    }
  }
}

TEST(WriteMethod, TriesBothAndKeepsToTheFaster) {
  WriteMethod method;
  std::array<int, 2> chosen{};
  for (int i = 0; i < 1000; ++i) {
    const WriteMethod::Kind kind = method.next();
    ++chosen[kind];
    method.took(kind, 1000, kind == WriteMethod::direct ? 1000 : 3000);
  }
  EXPECT_GT(chosen[WriteMethod::cached], 1);
  EXPECT_LT(chosen[WriteMethod::cached], 20);
}

TEST(WriteMethod, IsDirectWhileTheWriterKeepsUp) {
  WriteMethod method;
  std::array<int, 2> late{};
  for (int i = 0; i < 100; ++i) {
    const WriteMethod::Kind kind = method.next(i < 50);
    if (i >= 50) late[kind] += 1;
    if (i < 50) {
      EXPECT_EQ(kind, WriteMethod::direct);
    }
    method.took(kind, 1000, kind == WriteMethod::direct ? 9000 : 1000);
  }
  EXPECT_GT(late[WriteMethod::cached], 5 * late[WriteMethod::direct]);
}

TEST(WriteMethod, NoticesThatTheOtherHasBecomeFaster) {
  WriteMethod method;
  std::uint64_t direct_takes = 1000;
  std::array<int, 2> late{};
  for (int i = 0; i < 3000; ++i) {
    if (i == 500) direct_takes = 9000;
    const WriteMethod::Kind kind = method.next();
    if (i >= 1000) ++late[kind];
    method.took(kind, 1000, kind == WriteMethod::direct ? direct_takes : 3000);
  }
  EXPECT_GT(late[WriteMethod::cached], 20 * late[WriteMethod::direct]);
}

TEST(WriteMethod, ForgetsDirectWritesWhereThereAreNone) {
  WriteMethod method;
  EXPECT_EQ(method.next(), WriteMethod::direct);
  method.no_direct();
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(method.next(), WriteMethod::cached);
    method.took(WriteMethod::cached, 1000, 3000);
  }
}

// For large tensors a sample of the bytes counts at first, which are the same here.
TEST_F(TensorFiles, ThatAreLargeAreOneFileOnlyIfEveryByteIsEqual) {
  for (const bool packs : {false, true}) {
    options.pack = packs;
    open();
    std::string bytes(1 << 20, 'a'), other = bytes;
    other[777] = 'b';  // between two samples
    const std::uint64_t before = writer->bytes_written();
    std::vector<std::string> files;
    for (const std::string& one : {bytes, other, bytes, other, bytes}) {
      store(tensor(1000 + files.size() + (packs ? 100 : 0), one));
      stored.clear();
      files.push_back(one);
    }
    EXPECT_EQ(writer->bytes_written() - before, 2U << 20);
  }
}

TEST_F(TensorFiles, InAPackAreNamedOnlyAfterTheFlush) {
  options.pack = true;
  open();
  EXPECT_EQ(store(tensor(1, "abcd")), "");
  EXPECT_EQ(store(tensor(2, std::string(300'000, 'x'))), "");
  EXPECT_EQ(store(tensor(1, "")), "");  // equal to the first
  stored.clear();
  ASSERT_TRUE(writer->flush(stored));
  ASSERT_EQ(stored.size(), 3U);
  EXPECT_EQ(stored[0].path,
            "Net/0/0/tensors.pack/16384-132/Net/0/0/"
            "add.Default_add-op0.0.0.1700000000000000.output.0.DefaultFormat.UInt8.npy");
  EXPECT_TRUE(stored[2].path.starts_with("Net/0/0/tensors.pack/16384-132/Net/0/0/add.")) << stored[2].path;
  const Result<MappedFile> first = MappedFile::open(full(stored[0].path)),
                           large = MappedFile::open(full(stored[1].path));
  ASSERT_TRUE(first && large);
  EXPECT_EQ(first->text().substr(128), "abcd");
  EXPECT_EQ(large->text().substr(128), std::string(300'000, 'x'));
  EXPECT_EQ(pool.in_flight_bytes(), 0U);
  const Result<PackContents> contents = read_pack(full("Net/0/0/tensors.pack"), "Net/0/0/tensors.pack");
  ASSERT_TRUE(contents);
  EXPECT_EQ(contents->problem, "");
  EXPECT_EQ(contents->paths, (std::vector<std::string>{stored[0].path, stored[1].path, stored[2].path}));
  EXPECT_EQ(test::mode_of(full("Net/0/0/tensors.pack")), 0400U);
}

TEST_F(TensorFiles, OfManySizesInPacksHoldTheirBytes) {
  options.pack = true;
  open();
  std::vector<std::string> contents;
  for (const std::size_t size : {1, 63, 64, 4000, 65'000, 65'408, 65'409, 70'000, 300'000, 2'000'000, 20'000'000}) {
    for (int i = 0; i < 4; ++i) {
      std::string bytes(size, static_cast<char>('a' + i));
      bytes.back() = static_cast<char>('0' + i);
      contents.push_back(bytes);
    }
  }
  std::vector<StoredFile> all;
  for (std::size_t i = 0; i < contents.size(); ++i) {
    store(tensor(i + 1, contents[i]));
    all.insert(all.end(), stored.begin(), stored.end());
  }
  stored.clear();
  ASSERT_TRUE(writer->flush(stored));
  all.insert(all.end(), stored.begin(), stored.end());
  ASSERT_EQ(all.size(), contents.size());
  for (const StoredFile& file : all) {
    const Result<MappedFile> mapped = MappedFile::open(full(file.path));
    ASSERT_TRUE(mapped) << mapped.error().message;
    EXPECT_TRUE(mapped->text().substr(128) == contents[file.sequence]) << file.path;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(mapped->data()) % 64, 0U);
  }
}

TEST_F(TensorFiles, OfEqualBytesAreOneFileAcrossSteps) {
  open();
  const std::string first = store(tensor(1, "abcd"));
  writer->close_step({0, 0});
  const std::string again = store(tensor(2, "abcd"), {0, 1});
  const std::string by_content = store(tensor(2, ""), {0, 1});
  EXPECT_EQ(inode_of(full(first)), inode_of(full(again)));
  EXPECT_EQ(inode_of(full(first)), inode_of(full(by_content)));
}

TEST_F(TensorFiles, OfEqualBytesInAnotherTypeAreNotLinked) {
  open();
  const std::string first = store(tensor(1, "abcd"));
  TensorRecord other = tensor(2, "abcd");
  other.dtype = DType::int8;
  EXPECT_NE(inode_of(full(first)), inode_of(full(store(std::move(other)))));
}

TEST_F(TensorFiles, WaitForBytesThatComeLater) {
  open();
  EXPECT_EQ(store(tensor(5, "")), "");
  const std::string first = store(tensor(5, "abcd"));
  ASSERT_EQ(stored.size(), 2U);
  EXPECT_EQ(stored[1].sequence, 0U);
  EXPECT_EQ(inode_of(full(stored[1].path)), inode_of(full(first)));
  EXPECT_EQ(writer->lost(), 0U);
}

TEST_F(TensorFiles, WhoseBytesNeverComeAreGivenUpAfterTheNextStep) {
  open();
  store(tensor(5, ""));
  writer->close_step({0, 0});
  EXPECT_EQ(writer->lost(), 0U);
  writer->close_step({0, 1});
  EXPECT_EQ(writer->lost(), 1U);
}

TEST_F(TensorFiles, GetANewFileWhenTheOldOneHasNoLinksLeft) {
  options.link = link_until_full;
  links_left = 1;
  open();
  const std::string first = store(tensor(1, "abcd"));
  const std::string second = store(tensor(1, ""));
  const std::string third = store(tensor(1, ""));
  EXPECT_EQ(inode_of(full(first)), inode_of(full(second)));
  EXPECT_NE(inode_of(full(first)), inode_of(full(third)));
  EXPECT_EQ(data(third), "abcd");
  links_left = 1;
  EXPECT_EQ(inode_of(full(third)), inode_of(full(store(tensor(1, "")))));  // the new primary
}

TEST_F(TensorFiles, AreCopiedWhereThereAreNoLinks) {
  options.link = no_links;
  open();
  const std::string first = store(tensor(1, "abcd"));
  const std::string second = store(tensor(1, ""));
  const std::string third = store(tensor(2, "abcd"));
  EXPECT_NE(inode_of(full(first)), inode_of(full(second)));
  EXPECT_EQ(data(second), "abcd");
  EXPECT_EQ(data(third), "abcd");
  EXPECT_EQ(test::mode_of(full(second)), 0400U);
}

TEST_F(TensorFiles, AreWrittenAnewWhenTheUserRemovedTheOldOne) {
  open();
  const std::string first = store(tensor(1, "abcd"));
  std::filesystem::remove(full(first));
  EXPECT_EQ(data(store(tensor(2, "abcd"))), "abcd");
  EXPECT_EQ(data(store(tensor(2, ""))), "abcd");
}

TEST_F(TensorFiles, NeverTouchAFileThatHasTheName) {
  open();
  const std::string first = store(tensor(1, "abcd"));
  TensorRecord twin = tensor(2, "efgh");
  twin.slot = 0;
  const std::string second = store(std::move(twin));
  EXPECT_NE(second.find("1700000000000001"), std::string::npos);
  EXPECT_EQ(data(first), "abcd");
  EXPECT_EQ(data(second), "efgh");
}

TEST_F(TensorFiles, WithLongNamesAreNumberedAndMapped) {
  open();
  op.op_name = "Default/" + std::string(300, 'x') + "/add-op0";
  const std::string path = store(tensor(1, "abcd"));
  const std::string again = store(tensor(1, ""));
  const std::string number = std::filesystem::path(path).filename();
  EXPECT_EQ(number.find_first_not_of("0123456789"), number.find(".npy"));
  const std::string expected_name =
      "add.Default_" + std::string(300, 'x') + "_add-op0.0.0.1700000000000000.output.0.DefaultFormat.UInt8.npy";
  const std::string mapping = test::read_text(full("Net/0/0/mapping.csv"));
  EXPECT_TRUE(mapping.starts_with(number + "," + expected_name + "\n")) << mapping;
  EXPECT_EQ(std::count(mapping.begin(), mapping.end(), '\n'), 2);
  EXPECT_EQ(inode_of(full(path)), inode_of(full(again)));
  EXPECT_EQ(test::mode_of(full("Net/0/0/mapping.csv")), 0600U);
  writer->close_step({0, 0});
  EXPECT_EQ(test::mode_of(full("Net/0/0/mapping.csv")), 0400U);
}

TEST_F(TensorFiles, AreNotMadeForWhatIsEmptyUnwantedOrSkipped) {
  open();
  TensorRecord unwanted = tensor(1, "abcd");
  unwanted.wanted = false;
  TensorRecord skipped = tensor(2, "");
  skipped.skipped = "on another device";
  TensorRecord empty = tensor(3, "");
  const std::int64_t none = 0;
  empty.shape = Dims({&none, 1});
  EXPECT_EQ(store(std::move(unwanted)), "");
  EXPECT_EQ(store(std::move(skipped)), "");
  EXPECT_EQ(store(std::move(empty)), "");
  EXPECT_FALSE(std::filesystem::exists(full("Net")));
}

TEST_F(TensorFiles, OfBfloat16HoldFloat32UnlessRawIsAskedFor) {
  const std::string codes("\x80\x3f\x00\xc0", 4);
  const std::int64_t size = 2;
  const auto bfloat16 = [&](std::uint64_t content) {
    TensorRecord one = tensor(content, codes);
    one.shape = Dims({&size, 1});
    one.dtype = DType::bfloat16;
    return one;
  };
  open();
  const std::string path = store(bfloat16(1));
  EXPECT_EQ(test::values_from(full(path)), (std::vector<float>{1.0F, -2.0F}));
  EXPECT_NE(path.find("BFloat16"), std::string::npos);
  options.raw_bfloat16 = true;
  open();
  EXPECT_EQ(data(store(bfloat16(1))), codes);
}

TEST_F(TensorFiles, OfBfloat16ThatAreLargeAreWidenedPieceByPiece) {
  open();
  const std::int64_t size = 100001;
  TensorRecord one;
  one.dtype = DType::bfloat16;
  one.shape = Dims({&size, 1});
  one.content = 1;
  one.bytes = pool.take(static_cast<std::size_t>(size) * 2);
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint16_t code = static_cast<std::uint16_t>(0x3f80 + i % 64);
    std::memcpy(one.bytes->data + i * 2, &code, 2);
  }
  const std::vector<float> values = test::values_from(full(store(std::move(one))));
  ASSERT_EQ(values.size(), static_cast<std::size_t>(size));
  for (std::size_t i = 0; i < values.size(); ++i) {
    ASSERT_EQ(values[i], 1.0F + static_cast<float>(i % 64) / 128.0F) << i;
  }
}

TEST_F(TensorFiles, RememberOnlySoManyContents) {
  options.remembered_contents = 2;
  open();
  store(tensor(1, "aaaa"));
  store(tensor(2, "bbbb"));
  store(tensor(1, ""));
  store(tensor(3, "cccc"));  // 2 is the least recently used
  EXPECT_NE(store(tensor(1, "")), "");
  EXPECT_EQ(store(tensor(2, "")), "");
}

}  // namespace
}  // namespace sonde
