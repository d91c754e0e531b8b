#include "ground/files/files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>

#include "ground/files/safe_path.h"
#include "writer/dump_fixture.h"

namespace sonde {
namespace {

using test::mode_of;
using test::read_text;

class Files : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  const std::filesystem::path& root = directory.path();

  Result<AppendFile> open(const std::string& name, std::string_view header) {
    const Result<Fd> base = open_directory(root);
    return base ? AppendFile::open(base->get(), root / name, header) : base.error();
  }
  void append(const std::string& rows, std::string_view header = "head\n") {
    Result<AppendFile> file = open("table.csv", header);
    ASSERT_TRUE(file) << file.error().message;
    file->rows() += rows;
    ASSERT_TRUE(file->close());
  }
  void put(const std::string& name, const std::string& text) { std::ofstream(root / name, std::ios::binary) << text; }
};

TEST_F(Files, DirectoriesAreMadeForTheOwnerOnlyAndExistingOnesKeepTheirMode) {
  std::filesystem::create_directory(root / "old");
  std::filesystem::permissions(root / "old", std::filesystem::perms{0755});
  ASSERT_TRUE(make_directories(root / "old" / "a" / "b"));
  EXPECT_EQ(mode_of(root / "old"), 0755U);
  EXPECT_EQ(mode_of(root / "old" / "a"), 0700U);
  EXPECT_EQ(mode_of(root / "old" / "a" / "b"), 0700U);
  EXPECT_TRUE(make_directories(root / "old" / "a" / "b"));
}

TEST_F(Files, DirectoriesNeverGoUpwards) {
  EXPECT_FALSE(make_directories(root / "a" / ".." / "b"));
  EXPECT_FALSE(check_can_write(root / "a" / ".." / "b"));
}

TEST_F(Files, AFileInThePlaceOfADirectoryIsNamed) {
  put("file", "");
  const Status made = make_directories(root / "file" / "x");
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "cannot make directory '" + (root / "file").string() + "': not a directory");
  EXPECT_FALSE(check_can_write(root / "file" / "x"));
}

TEST_F(Files, ADirectoryThatWasRemovedIsNotMadeAgainBelowAnOpenOne) {
  Result<Fd> base = open_directory(root);
  ASSERT_TRUE(base);
  std::filesystem::remove_all(root);
  EXPECT_FALSE(open_below(base->get(), root, "a/b", Missing::make));
  EXPECT_FALSE(std::filesystem::exists(root));
}

TEST_F(Files, ChecksLeaveNothingBehind) {
  EXPECT_TRUE(check_can_write(root / "a" / "b" / "c"));
  EXPECT_TRUE(std::filesystem::is_empty(root));
}

TEST_F(Files, AnAsideFileAppearsOnlyWhenCommitted) {
  Result<Fd> base = open_directory(root);
  ASSERT_TRUE(base);
  {
    AsideFile lost(base->get());
    ASSERT_EQ(lost.create(), 0);
    ASSERT_EQ(lost.write("head", "body", 4), 0);
    EXPECT_EQ(test::files_below(root).size(), 1U);
  }
  EXPECT_TRUE(std::filesystem::is_empty(root));
  AsideFile kept(base->get());
  ASSERT_EQ(kept.create(), 0);
  ASSERT_EQ(kept.write("head", "body", 4), 0);
  ASSERT_EQ(kept.commit(base->get(), "name", false), 0);
  EXPECT_EQ(read_text(root / "name"), "headbody");
  EXPECT_EQ(mode_of(root / "name"), 0400U);
}

TEST_F(Files, AnAsideFileNeverTakesANameUnlessAllowedAndMayTryAnother) {
  put("taken", "old");
  Result<Fd> base = open_directory(root);
  AsideFile file(base->get());
  ASSERT_EQ(file.create(), 0);
  EXPECT_EQ(file.commit(base->get(), "taken", false), EEXIST);
  EXPECT_EQ(read_text(root / "taken"), "old");
  EXPECT_EQ(file.commit(base->get(), "free", false), 0);
  EXPECT_EQ(test::files_below(root), (std::vector<std::string>{"free", "taken"}));
}

TEST_F(Files, AnAppendFileIsOpenTo0600And0400AfterClosing) {
  Result<AppendFile> file = open("table.csv", "head\n");
  ASSERT_TRUE(file);
  EXPECT_EQ(mode_of(root / "table.csv"), 0600U);
  ASSERT_TRUE(file->close());
  EXPECT_EQ(mode_of(root / "table.csv"), 0400U);
  EXPECT_EQ(read_text(root / "table.csv"), "head\n");
}

TEST_F(Files, AppendingToAnExistingFileAddsNoHeader) {
  append("1\n");
  append("2\n");
  EXPECT_EQ(read_text(root / "table.csv"), "head\n1\n2\n");
}

TEST_F(Files, ARowTornByAKilledRunIsCutOff) {
  put("table.csv", "head\n1\n2,half a r" + std::string(5000, 'x'));
  append("3\n");
  EXPECT_EQ(read_text(root / "table.csv"), "head\n1\n3\n");
  put("torn.csv", "hea");
  Result<AppendFile> file = open("torn.csv", "head\n");
  ASSERT_TRUE(file);
  ASSERT_TRUE(file->close());
  EXPECT_EQ(read_text(root / "torn.csv"), "head\n");
}

// A disk that was full when the table began may take rows later.
TEST_F(Files, ATableWhoseHeaderCouldNotBeWrittenBeginsWithItLater) {
  Result<AppendFile> file = open("late.csv", "head\n");
  ASSERT_TRUE(file) << file.error().message;
  file->rows() += std::string(2048, 'x') + "\n";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit tight = before;
  tight.rlim_cur = 1024;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &tight), 0);
  EXPECT_FALSE(file->flush());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  std::signal(SIGXFSZ, SIG_DFL);
  file->rows() += "1\n";
  ASSERT_TRUE(file->close());
  EXPECT_EQ(read_text(root / "late.csv"), "head\n1\n");
}

TEST_F(Files, ALinkInThePlaceOfAnAppendFileIsNotFollowed) {
  put("victim", "precious");
  std::filesystem::create_symlink(root / "victim", root / "table.csv");
  EXPECT_FALSE(open("table.csv", "head\n"));
  EXPECT_EQ(read_text(root / "victim"), "precious");
}

}  // namespace
}  // namespace sonde
