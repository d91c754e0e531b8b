#include "ground/files/directory.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "writer/dump_fixture.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

TEST(Directory, HasEachEntryOnceWithTheTypeOfTheEntryItself) {
  const test::TemporaryDirectory directory;
  const fs::path& root = directory.path();
  std::ofstream(root / "file") << "x";
  fs::create_directory(root / "below");
  std::ofstream(root / "below" / "not this one") << "x";
  fs::create_symlink("file", root / "to file");
  fs::create_symlink("below", root / "to below");
  fs::create_symlink("gone", root / "to nothing");
  std::map<std::string, fs::file_type> found;
  const std::error_code error = for_each_entry(root, [&](std::string_view name, fs::file_type type) {
    EXPECT_TRUE(found.try_emplace(std::string(name), type).second) << name;
  });
  EXPECT_FALSE(error) << error.message();
  const std::map<std::string, fs::file_type> expected = {{"file", fs::file_type::regular},
                                                         {"below", fs::file_type::directory},
                                                         {"to file", fs::file_type::symlink},
                                                         {"to below", fs::file_type::symlink},
                                                         {"to nothing", fs::file_type::symlink}};
  EXPECT_EQ(found, expected);
}

TEST(Directory, SaysWhyItCannotBeRead) {
  const test::TemporaryDirectory directory;
  const auto never = [](std::string_view, fs::file_type) { FAIL(); };
  EXPECT_EQ(for_each_entry(directory.path() / "gone", never), std::errc::no_such_file_or_directory);
  std::ofstream(directory.path() / "file") << "x";
  EXPECT_EQ(for_each_entry(directory.path() / "file", never), std::errc::not_a_directory);
}

}  // namespace
}  // namespace sonde
