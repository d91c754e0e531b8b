// Files of others, or of the user, under the names that a recording uses: the recording neither follows nor waits for
// them, nothing outside the dump changes, and one line names the file and its kind.
#include <grp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include <functional>
#include <set>

#include "dump_fixture.h"
#include "ground/files/files.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;
using test::Host;
using test::in_child;

constexpr ::uid_t kStranger = 65534;
constexpr StepId kThirdStep{0, 3};

// Everything below a directory: kinds, owners, modes, contents.
std::string picture(const fs::path& directory) {
  std::set<std::string> lines;
  for (const auto& entry : fs::recursive_directory_iterator(directory)) {
    struct stat status {};
    ::lstat(entry.path().c_str(), &status);
    lines.insert(entry.path().string() + " " + std::to_string(status.st_mode) + " " + std::to_string(status.st_uid) +
                 " " + std::to_string(status.st_mtim.tv_nsec) +
                 (S_ISREG(status.st_mode) ? test::read_text(entry.path()) : ""));
  }
  std::string all;
  for (const std::string& line : lines) all += line + "\n";
  return all;
}

struct Plant {
  std::string name;
  std::function<bool(const fs::path& at, const fs::path& victim)> make;  // false: not possible here
  bool replaces_directory = true;
  bool by_stranger = false;
};

bool make_socket(const fs::path& at) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = at.filename();  // sun_path is short
  if (name.size() >= sizeof address.sun_path) return false;
  std::copy(name.begin(), name.end(), address.sun_path);
  const fs::path before = fs::current_path();
  fs::current_path(at.parent_path());
  const Fd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
  const bool made = ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  fs::current_path(before);
  return made;
}

bool link_to(const fs::path& target, const fs::path& at) { return ::symlink(target.c_str(), at.c_str()) == 0; }

std::vector<Plant> plants(LayoutKind layout) {
  std::vector<Plant> all;
  const auto add = [&](const std::string& name, auto make) { all.push_back({name, make}); };
  add("a link to a file", [](const fs::path& at, const fs::path& v) { return link_to(v / "file", at); });
  add("a link to a directory", [](const fs::path& at, const fs::path& v) { return link_to(v / "directory", at); });
  add("a pipe", [](const fs::path& at, const fs::path&) { return ::mkfifo(at.c_str(), 0666) == 0; });
  if (layout != LayoutKind::mindspore_2_7) return all;  // one layout is enough for the rest: the code is the same
  add("a dangling link", [](const fs::path& at, const fs::path& v) { return link_to(v / "new", at); });
  add("a socket", [](const fs::path& at, const fs::path&) { return make_socket(at); });
  add("a device",
      [](const fs::path& at, const fs::path&) { return ::mknod(at.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0; });
  add("a hard link",
      [](const fs::path& at, const fs::path& v) { return ::link((v / "file").c_str(), at.c_str()) == 0; });
  add("a directory", [](const fs::path& at, const fs::path&) { return ::mkdir(at.c_str(), 0700) == 0; });
  all.back().replaces_directory = false;
  return all;
}

Plan plan_of(const fs::path& root, LayoutKind layout, Release version) {
  Plan plan = test::plan_for(root);
  plan.sonde.layout = layout;
  plan.sonde.version = version;
  return plan;
}

// Records one step: a parameter, an op with a tensor and a long name, a graph. Returns its message; empty: none.
std::string record(const Plan& plan) {
  Host run(plan);
  if (!run.is_open()) return run.refused().message;
  run.begin(kThirdStep);
  const std::string scope(200, 's');
  for (const std::string& name : {std::string("Default/add-op0"), "Default/" + scope + "/" + scope + "-M/add-op0"}) {
    run.push(run.op(name), kThirdStep, run.tensor({1, 2, 3}, name.size()));
  }
  run.end(kThirdStep);
  run->finish();
  return run->error() ? run->error()->message : std::string();
}

// Hundreds of small trees: in memory if possible.
fs::path quick_place() { return ::access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : fs::temp_directory_path(); }

class Planted : public testing::TestWithParam<std::pair<LayoutKind, Release>> {
 protected:
  test::TemporaryDirectory directory{quick_place()};
  fs::path victim = directory.path() / "victim", place = directory.path() / "place", root = place / "dump";
  Plan plan = plan_of(root, GetParam().first, GetParam().second);

  void SetUp() override {
    ::alarm(120);  // a test that hangs is a failure
    fs::create_directories(victim / "directory" / "5");
    for (const char* name : {"file", "directory/0", "directory/5/1", "directory/journal", "directory/statistic.csv"}) {
      std::ofstream(victim / name) << "precious";
      fs::permissions(victim / name, fs::perms{0644});
    }
    fs::permissions(directory.path(), fs::perms{0755});
  }
  void TearDown() override { ::alarm(0); }

  // Every name that a recording leaves, relative to the dump's path, and its temporary names.
  std::set<std::string> names() {
    EXPECT_EQ(record(plan), "");
    std::set<std::string> all = {"."};
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      all.insert(entry.path().lexically_relative(root));
      if (entry.path().filename() != "partial") continue;
      all.insert((entry.path() / std::to_string(::getpid())).lexically_relative(root));
      all.insert((entry.path() / "7").lexically_relative(root));
    }
    return all;
  }

  // Puts `at` in place of a file of the recording, in a dump that was recorded to, or without the files that come after
  // it.
  static void clear(const fs::path& at) {
    fs::create_directories(at.parent_path());
    fs::remove_all(at);
  }
};

// As the user would do it: the directories above are valid.
TEST_P(Planted, NothingUnderANameOfTheDumpIsFollowedEmptiedOrWaitedFor) {
  const std::set<std::string> all = names();
  ASSERT_GT(all.size(), 12U);
  const std::string before = picture(victim);
  const fs::path kept = directory.path() / "kept";
  fs::rename(place, kept);
  for (const std::string& name : all) {
    const fs::path at = name == "." ? root : root / name;
    if (name == ".") continue;  // the path itself may be a link of the user's: below
    const bool was_directory = fs::is_directory(at);
    for (const Plant& plant : plants(GetParam().first)) {
      if (was_directory && !plant.replaces_directory) continue;
      SCOPED_TRACE(plant.name + " at " + name);
      fs::remove_all(place);
      fs::copy(kept, place, fs::copy_options::recursive);
      clear(at);
      if (!plant.make(at, victim)) continue;
      const std::string there = picture(victim);
      const std::string said = record(plan);
      EXPECT_EQ(picture(victim), there);
      if (!said.empty()) {
        EXPECT_NE(said.find(at.filename().string()), std::string::npos) << said;
        EXPECT_EQ(said.find('\n'), std::string::npos) << said;
      }
      EXPECT_FALSE(was_directory && said.empty());
      fs::remove_all(at);
    }
  }
  EXPECT_EQ(picture(victim), before);
}

// In a place that another user has prepared.
TEST_P(Planted, WhatAStrangerHasPreparedIsRefusedByPathOwnerAndCure) {
  if (::getuid() != 0) GTEST_SKIP() << "needs a second user: runs as root";
  const std::set<std::string> all = names();
  const std::string before = picture(victim);
  for (const std::string& name : all) {
    const fs::path at = name == "." ? root : root / name;
    const bool was_directory = fs::is_directory(at) || name == ".";
    std::vector<Plant> choices = plants(GetParam().first);
    if (was_directory) {
      choices.push_back(
          {"a directory of his", [](const fs::path& to, const fs::path&) { return ::mkdir(to.c_str(), 0755) == 0; }});
    }
    for (const Plant& plant : choices) {
      if (plant.name == "a hard link") continue;  // it would change the owner of the victim
      SCOPED_TRACE(plant.name + " at " + name);
      fs::remove_all(place);
      fs::create_directories(place);
      clear(at);
      if (!plant.make(at, victim)) continue;
      for (fs::path up = at; up != directory.path(); up = up.parent_path()) {
        ASSERT_EQ(::lchown(up.c_str(), kStranger, kStranger), 0);
      }
      const std::string theirs = picture(place);
      const std::string said = record(plan);
      EXPECT_EQ(picture(victim), before);
      EXPECT_EQ(picture(place), theirs) << "something was left behind";
      EXPECT_TRUE(said.starts_with("cannot ")) << said;
      EXPECT_NE(said.find(name == "." ? root.string() : place.string()), std::string::npos) << said;
      EXPECT_EQ(said.find('\n'), std::string::npos) << said;
    }
  }
}

TEST_P(Planted, ADirectoryOfTheDumpThatOthersMayWriteToIsRefused) {
  for (const std::string& name : names()) {
    const fs::path at = name == "." ? root : root / name;
    if (!fs::is_directory(at)) continue;
    SCOPED_TRACE(name);
    const mode_t before = test::mode_of(at);
    fs::permissions(at, fs::perms{0777});
    const std::string said = record(plan);
    EXPECT_EQ(said,
              "cannot record to '" + at.string() +
                  "': others may write to this directory (mode 0777); try chmod go-w on it, or choose another path");
    EXPECT_EQ(test::mode_of(at), 0777U);
    fs::permissions(at, fs::perms{before});
  }
}

INSTANTIATE_TEST_SUITE_P(Layouts, Planted,
                         testing::Values(std::pair(LayoutKind::mindspore_2_7, Release::v2_7),
                                         std::pair(LayoutKind::mindspore_1_2, Release::v1_2),
                                         std::pair(LayoutKind::o2, Release::v2_7)));

class DumpPath : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  fs::path place = directory.path() / "place", root = place / "dump";

  void SetUp() override {
    fs::create_directory(place);
    fs::permissions(directory.path(), fs::perms{0755});
  }
};

TEST_F(DumpPath, MayBeALinkOfTheUsersOwnAndLieBehindOne) {
  fs::create_directory(directory.path() / "disk");
  ASSERT_TRUE(link_to("../disk", place / "data"));
  fs::create_directory(directory.path() / "disk/run");
  ASSERT_TRUE(link_to(directory.path() / "disk/run", root));
  EXPECT_EQ(record(test::plan_for(place / "data/new")), "");
  EXPECT_EQ(record(test::plan_for(root)), "");
  EXPECT_FALSE(test::npy_files(directory.path() / "disk/new/rank_0").empty());
  EXPECT_FALSE(test::npy_files(directory.path() / "disk/run/rank_0").empty());
}

TEST_F(DumpPath, IsNotReachedThroughALinkOfAStrangers) {
  if (::getuid() != 0) GTEST_SKIP() << "needs a second user: runs as root";
  fs::create_directory(directory.path() / "disk");
  ASSERT_TRUE(link_to(directory.path() / "disk", place / "data"));
  ASSERT_EQ(::lchown((place / "data").c_str(), kStranger, kStranger), 0);
  EXPECT_EQ(
      record(test::plan_for(place / "data/new")),
      "cannot record to '" + (place / "data").string() +
          "': it is a symbolic link of user 65534, and this process is user 0; name the directory itself, or choose "
          "another path");
  EXPECT_TRUE(fs::is_empty(directory.path() / "disk"));
}

TEST_F(DumpPath, MayBeMadeInADirectoryThatEverybodyWritesTo) {
  fs::permissions(place, fs::perms{01777});
  EXPECT_EQ(record(test::plan_for(root)), "");
  EXPECT_EQ(test::mode_of(root), 0700U);
  EXPECT_EQ(record(test::plan_for(place)), "") << "as in /tmp itself";
}

TEST_F(DumpPath, OfAnEarlierRunIsWrittenToWhateverTheUmaskWas) {
  for (const unsigned mode : {0700U, 0755U, 0775U}) {
    ASSERT_EQ(record(test::plan_for(root)), "");
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_directory()) fs::permissions(entry.path(), fs::perms{mode});
    }
    fs::permissions(root, fs::perms{mode});
    EXPECT_EQ(record(test::plan_for(root)), "") << mode;
  }
}

TEST_F(DumpPath, OfADirectoryThatAnotherGroupMayWriteToIsRefused) {
  if (::getuid() != 0) GTEST_SKIP() << "needs a second group: runs as root";
  fs::create_directory(root);
  fs::permissions(root, fs::perms{0775});
  ASSERT_EQ(::chown(root.c_str(), 0, kStranger), 0);
  EXPECT_NE(record(test::plan_for(root)).find("others may write to this directory (mode 0775)"), std::string::npos);
  EXPECT_TRUE(fs::is_empty(root));
}

// The reverse: a user without root's rights does not write to root's files, and reports it.
TEST_F(DumpPath, OfRootIsNoDumpOfAUsers) {
  if (::getuid() != 0) GTEST_SKIP() << "needs a second user: runs as root";
  ASSERT_EQ(record(test::plan_for(root)), "");
  fs::permissions(root, fs::perms{01777});
  fs::permissions(root / "rank_0", fs::perms{0755});
  const int status = in_child([&] {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kStranger) != 0 || ::setuid(kStranger) != 0) return 2;
    const std::string said = record(test::plan_for(root));
    return said.find("rank_0': the directory belongs to user 0, and this process is user 65534") != std::string::npos
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
}

// Of a killed run's files, only those with names in our own form are removed.
TEST_F(DumpPath, LeftoversAreRemovedByTheirNames) {
  ASSERT_EQ(record(test::plan_for(root)), "");
  const fs::path partial = root / "rank_0/.dump_metadata/sonde/partial";
  fs::create_directories(partial / "123/notes");
  for (const char* name : {"123/0", "123/mine", "124", "mine"}) std::ofstream(partial / name) << "x";
  fs::create_directory(partial / "125");
  ASSERT_EQ(record(test::plan_for(root)), "");
  EXPECT_EQ(test::files_below(partial), (std::vector<std::string>{"123/mine", "mine"}));
  EXPECT_TRUE(fs::exists(partial / "123/notes"));
  EXPECT_FALSE(fs::exists(partial / "125"));
}

}  // namespace
}  // namespace sonde
