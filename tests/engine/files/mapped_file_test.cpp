#include "ground/files/mapped_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "writer/dump_fixture.h"

namespace sonde {
namespace {

class MappedFiles : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  std::filesystem::path path = directory.path() / "a.npy";
  const std::string text = std::string(1 << 20, 'x');

  void SetUp() override { std::ofstream(path, std::ios::binary) << text; }
  void permit(unsigned mode) { std::filesystem::permissions(path, std::filesystem::perms{mode}); }
};

TEST_F(MappedFiles, OfTheUsersOwnAreLookedAtInPlace) {
  permit(0644);
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file);
  EXPECT_FALSE(file->is_copy());
  EXPECT_EQ(file->text(), text);
}

TEST_F(MappedFiles, ThatOthersMayWriteToKeepTheirBytesWhenTheyAreCutShort) {
  permit(0666);
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, 10);
  EXPECT_EQ(file->text(), text);
}

TEST_F(MappedFiles, OfAnotherUserKeepTheirBytesWhenTheyAreCutShort) {
  if (::getuid() != 0) GTEST_SKIP() << "needs a second user: runs as root";
  permit(0644);
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_TRUE(file);
  std::filesystem::resize_file(path, 10);
  EXPECT_EQ(file->text(), text);
}

TEST_F(MappedFiles, OfOthersThatAreLargerThanTheMemoryAreRefusedAndNotRead) {
  permit(0666);
  const auto memory = static_cast<std::uintmax_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  std::filesystem::resize_file(path, 2 * memory);  // without blocks
  const Result<MappedFile> file = MappedFile::open(path);
  ASSERT_FALSE(file);
  EXPECT_NE(file.error().message.find("do not fit into half of the memory"), std::string::npos);
  permit(0644);
  EXPECT_TRUE(MappedFile::open(path)) << "mapped: it takes no memory";
}

}  // namespace
}  // namespace sonde
