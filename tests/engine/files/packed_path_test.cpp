#include "ground/files/packed_path.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <fstream>

#include "ground/files/mapped_file.h"
#include "writer/dump_fixture.h"

namespace sonde {
namespace {

TEST(PackedPath, SaysWhereTheBytesAreAndWhatTheFileWouldBeCalled) {
  const std::string path = packed_prefix("Net/0/3/tensors.pack", 4096, 128) + "Net/0/3/add.npy";
  EXPECT_EQ(path, "Net/0/3/tensors.pack/4096-128/Net/0/3/add.npy");
  const std::optional<PackedPath> packed = packed_path(path);
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->pack, "Net/0/3/tensors.pack");
  EXPECT_EQ(packed->offset, 4096U);
  EXPECT_EQ(packed->bytes, 128U);
  EXPECT_EQ(packed->own, "Net/0/3/add.npy");
}

TEST(PackedPath, IsNoOtherPath) {
  for (const char* path : {"", "add.npy", "tensors.pack", "tensors.pack/", "tensors.pack/4-5", "tensors.pack/4-5/",
                           "tensors.pack/4/add.npy", "tensors.pack/-4-5/add.npy", "tensors.pack/4--5/add.npy",
                           "tensors.pack/99999999999999999999-5/add.npy", "tensors.pack/a-b/add.npy"}) {
    EXPECT_FALSE(packed_path(path)) << path;
  }
  EXPECT_EQ(packed_path("a.pack/b/tensors.pack/4-5/c")->pack, "a.pack/b/tensors.pack");
}

class Packs : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  std::filesystem::path pack = directory.path() / "tensors.pack";

  void SetUp() override { std::ofstream(pack) << std::string(4096, '.') + "hello" + std::string(100'000, 'x'); }
  std::filesystem::path at(std::uint64_t offset, std::uint64_t bytes) {
    return packed_prefix(pack.native(), offset, bytes) + "Net/add.npy";
  }
};

TEST_F(Packs, AreReadInPart) {
  const Result<MappedFile> small = MappedFile::open(at(4096, 5)), large = MappedFile::open(at(4101, 100'000));
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->text(), "hello");
  EXPECT_EQ(large->text(), std::string(100'000, 'x'));
}

TEST_F(Packs, AreNeverReadBeyondTheirEnd) {
  for (const auto& path : {at(4096, 100'006), at(104'101, 1), at(~0ULL, 1), at(1, ~0ULL), at(104'102, 0), at(8, 0)}) {
    const Result<MappedFile> file = MappedFile::open(path);
    ASSERT_FALSE(file) << path;
    EXPECT_NE(file.error().message.find("the pack has 104101 bytes"), std::string::npos) << file.error().message;
  }
}

TEST_F(Packs, GiveEachPlaceTheSizeAndIdentityOfAFile) {
  struct stat whole {
  }, first{}, same{}, other{};
  ASSERT_EQ(stat_tensor(pack, whole), 0);
  ASSERT_EQ(stat_tensor(at(4096, 5), first), 0);
  ASSERT_EQ(stat_tensor(at(4096, 5), same), 0);
  ASSERT_EQ(stat_tensor(at(4101, 5), other), 0);
  EXPECT_EQ(first.st_size, 5);
  EXPECT_EQ(first.st_ino, same.st_ino);
  EXPECT_NE(first.st_ino, other.st_ino);
  EXPECT_NE(first.st_ino, whole.st_ino);
  EXPECT_EQ(stat_tensor(at(4096, 1 << 20), other), ENOENT);
  EXPECT_EQ(stat_tensor(directory.path() / "none", other), ENOENT);
  EXPECT_EQ(file_of_tensor(at(4096, 5)), pack);
  EXPECT_EQ(file_of_tensor(directory.path() / "none"), directory.path() / "none");
}

}  // namespace
}  // namespace sonde
