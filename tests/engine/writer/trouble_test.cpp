// The recorder under failures of the system: no space, no rights, no directory, no process.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include <chrono>
#include <thread>

#include "dump/journal/journal.h"
#include "dump_fixture.h"
#include "record/writer/recording.h"

namespace sonde {
namespace {

using test::Host;
using test::in_child;
using test::kStep;
using test::npy_files;
using test::plan_for;

class Trouble : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  std::filesystem::path root = directory.path() / "dump";
  std::filesystem::path rank = root / "rank_0";

  static void push_tensor(Host& run, std::uint64_t number, std::size_t elements, StepId step = kStep) {
    run.push(run.op("Default/add-op" + std::to_string(number)), step,
             run.tensor(std::vector<float>(elements, static_cast<float>(number)), number));
  }

  static void expect_whole(const std::filesystem::path& below, std::size_t elements) {
    for (const auto& file : npy_files(below)) {
      EXPECT_EQ(std::filesystem::file_size(file), 128 + elements * sizeof(float)) << file;
    }
  }
};

TEST_F(Trouble, ADiskThatFillsUpStopsTheRecordingAndNotTheRun) {
  std::filesystem::create_directory(root);
  if (::mount("sonde-test", root.c_str(), "tmpfs", 0, "size=2m") != 0) {
    GTEST_SKIP() << "cannot mount a small file system here";
  }
  {
    Plan plan = plan_for(root);
    plan.sonde.budget_bytes = 1 << 20;  // so small that a writer that keeps blocks would hang
    Host run(plan);
    ASSERT_TRUE(run.is_open()) << run.refused().message;
    run.begin(kStep);
    for (std::uint64_t i = 1; i <= 100; ++i) push_tensor(run, i, 16 << 10);
    run.end(kStep);
    const Totals totals = run->finish();
    ASSERT_TRUE(run->error());
    EXPECT_EQ(run->error()->code, ErrorCode::io);
    EXPECT_TRUE(run->error()->message.ends_with("no space left on device")) << run->error()->message;
    EXPECT_GT(totals.files, 10U);
    EXPECT_GT(totals.bytes_dropped, 0U);
    EXPECT_EQ(npy_files(rank).size(), totals.files);
    expect_whole(rank, 16 << 10);
    const Result<Journal> journal = read_journal(rank / ".dump_metadata/sonde/journal");
    ASSERT_TRUE(journal);
    EXPECT_EQ(journal->torn_bytes, 0U);
    std::size_t files = 0;
    bool reported = false;
    for (const JournalRecord& record : journal->runs.at(0).records) {
      for (const JournalTensor& tensor : record.tensors) files += tensor.file.empty() ? 0 : 1;
      reported = reported || record.note.find("no space") != std::string::npos;
    }
    EXPECT_EQ(files, totals.files);
    EXPECT_TRUE(reported);
    EXPECT_TRUE(test::files_below(rank / ".dump_metadata/sonde/partial").empty());
  }
  ::umount(root.c_str());
}

TEST_F(Trouble, AFileThatMayNotGrowStopsTheRecordingAndLeavesNoPart) {
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Host run(plan_for(root, SavedData::tensor));
    run.begin(kStep);
    push_tensor(run, 1, 100);
    push_tensor(run, 2, 1 << 20);
    push_tensor(run, 3, 100);
    run.end(kStep);
    const Totals totals = run->finish();
    if (!run->error() || totals.files != 1) return 1;
    return run->error()->message.find("file too large") == std::string::npos ? 2 : 0;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(npy_files(rank).size(), 1U);
  EXPECT_TRUE(test::files_below(rank / ".dump_metadata/sonde/partial").empty());
}

// The work of the writer thread, step by step.
class Writing {
 public:
  explicit Writing(const Plan& plan) : recording_(plan, RunInfo(), Layout::make(plan, RunInfo()), spare_, hasher_) {
    recording_.open();
  }
  Recording* operator->() { return &recording_; }

  void add(std::uint64_t sequence, StepId step = kStep) {
    const auto number = static_cast<std::uint32_t>(sequence);
    const OpName& name = names_.emplace_back(OpName{number + 1, "add", "Default/add-op" + std::to_string(number)});
    recording_.define(name);
    Record record;
    record.op = &name;
    record.sequence = sequence;
    record.step = step;
    TensorRecord& tensor = record.tensors.emplace_back();
    tensor.dtype = DType::float32;
    tensor.content = sequence + 1;
    tensor.timestamp_us = test::kTime + sequence;
    tensor.has_statistics = true;
    tensor.statistics.count = 1;
    tensor.bytes = pool_.take(sizeof(float));
    std::memset(tensor.bytes->data, 1, sizeof(float));
    recording_.add(std::move(record));
  }

 private:
  std::deque<OpName> names_;
  BlockPool pool_{1 << 20};
  SpareTensors spare_;
  Hasher hasher_{false, false, 1 << 20};
  Recording recording_;
};

// The rows of all tables on disk, without headers.
std::size_t rows_below(const std::filesystem::path& directory) {
  std::size_t rows = 0;
  for (const std::string& name : test::files_below(directory)) {
    if (name.find(".dump_metadata") != std::string::npos || !name.ends_with(".csv")) continue;
    const std::string text = test::read_text(directory / name);
    const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n'));
    if (lines > 0) rows += lines - 1;
  }
  return rows;
}

// An entry that refers to a refused one would be damage.
TEST_F(Trouble, AJournalThatMayNotGrowNamesNothingThatItLacks) {
  const int status = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{64 << 10, 64 << 10};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    Writing writing(plan_for(root));
    writing.add(0);
    writing->flush_appends();
    Site site;
    site.id = 1;
    site.scope.assign(64 << 10, 's');
    writing->define(site);
    writing.add(1);
    writing.add(3);  // waits for 2
    writing->flush_appends();
    const bool has_failed = writing->error().has_value();
    writing->close();
    return has_failed ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(npy_files(rank).size(), 3U);
  const Result<Journal> journal = read_journal(rank / ".dump_metadata/sonde/journal");
  ASSERT_TRUE(journal);
  EXPECT_EQ(journal->malformed_entries, 0U);
  ASSERT_EQ(journal->runs.size(), 1U);
  const JournalRun& run = journal->runs[0];
  EXPECT_TRUE(run.lone_files.empty());
  EXPECT_NE(run.end_json.find("file too large"), std::string::npos);
  ASSERT_EQ(run.records.size(), 2U);
  EXPECT_EQ(run.records[0].sequence, 0U);
  EXPECT_NE(run.records[1].note.find("recording stopped"), std::string::npos);
  EXPECT_EQ(rows_below(rank), 1U);
}

TEST_F(Trouble, NoRowIsOnDiskBeforeItsRecordIsInTheJournal) {
  Writing writing(plan_for(root));
  for (std::uint64_t i = 0; i < 40; ++i) writing.add(i, {0, i});  // more tables than stay open
  const Result<Journal> journal = read_journal(rank / ".dump_metadata/sonde/journal");
  ASSERT_TRUE(journal);
  EXPECT_GE(journal->runs.at(0).records.size(), rows_below(rank));
  writing->flush_appends();
  EXPECT_EQ(rows_below(rank), 40U);
  EXPECT_EQ(read_journal(rank / ".dump_metadata/sonde/journal")->runs.at(0).records.size(), 40U);
  writing->close();
}

TEST_F(Trouble, NoTableOfAnOpIsOnDiskBeforeItsRecordIsInTheJournal) {
  Plan plan = plan_for(root, SavedData::statistic);
  plan.sonde.layout = LayoutKind::acl;
  plan.sonde.version = info(LayoutKind::acl).release;
  Writing writing(plan);
  writing.add(0);
  EXPECT_EQ(rows_below(root), 0U);
  writing->flush_appends();
  EXPECT_EQ(rows_below(root), 1U);
  writing->close();
  EXPECT_FALSE(writing->error());
}

TEST_F(Trouble, ADirectoryRemovedWhileRunningIsAnErrorAndStaysRemoved) {
  Host run(plan_for(root));
  run.begin(kStep);
  push_tensor(run, 1, 100);
  run->flush();
  std::filesystem::remove_all(root);
  push_tensor(run, 2, 100);
  run.end(kStep);
  run.begin({0, 1});
  push_tensor(run, 3, 100, {0, 1});
  run.end({0, 1});
  run->finish();
  ASSERT_TRUE(run->error());
  EXPECT_EQ(run->error()->code, ErrorCode::io);
  EXPECT_FALSE(std::filesystem::exists(root));
}

TEST_F(Trouble, StatisticsOfARemovedDirectoryDoNotGoOnInTheDark) {
  Host run(plan_for(root, SavedData::statistic));
  run.begin(kStep);
  push_tensor(run, 1, 100);
  run.end(kStep);
  run->flush();
  std::filesystem::remove_all(root);
  run.begin({0, 1});
  push_tensor(run, 2, 100, {0, 1});
  run.end({0, 1});
  run->finish();
  EXPECT_TRUE(run->error());
  EXPECT_FALSE(std::filesystem::exists(root));
}

TEST_F(Trouble, AKilledRunLeavesWholeFilesAndAReadableJournal) {
  constexpr std::size_t kElements = 200 << 10;
  const ::pid_t child = ::fork();
  if (child == 0) {
    Host run(plan_for(root));
    run.begin(kStep);
    for (std::uint64_t i = 1;; ++i) push_tensor(run, i, kElements);
  }
  while (npy_files(rank).size() < 20) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  expect_whole(rank / "Net", kElements);
  const Result<Journal> journal = read_journal(rank / ".dump_metadata/sonde/journal");
  ASSERT_TRUE(journal) << journal.error().message;
  ASSERT_EQ(journal->runs.size(), 1U);
  for (const JournalRecord& record : journal->runs[0].records) {
    for (const JournalTensor& tensor : record.tensors) EXPECT_TRUE(std::filesystem::exists(rank / tensor.file));
  }
  EXPECT_TRUE(journal->runs[0].end_json.empty());
  // The next run takes over, and removes incomplete files.
  std::ofstream(rank / ".dump_metadata/sonde/partial/7") << "half";
  Host next(plan_for(root));
  ASSERT_TRUE(next.is_open()) << next.refused().message;
  next.begin({0, 5});
  push_tensor(next, 1, 10, {0, 5});
  next.end({0, 5});
  next->finish();
  EXPECT_FALSE(next->error());
  EXPECT_TRUE(test::files_below(rank / ".dump_metadata/sonde/partial").empty());
  EXPECT_EQ(read_journal(rank / ".dump_metadata/sonde/journal")->runs.size(), 2U);
}

std::size_t files_in(const std::filesystem::path& path) {
  const Result<Journal> journal = read_journal(path);
  std::size_t files = 0;
  if (!journal || journal->runs.empty()) return 0;
  for (const JournalRecord& record : journal->runs[0].records) {
    files += static_cast<std::size_t>(std::ranges::count_if(record.tensors, [](auto& t) { return !t.file.empty(); }));
  }
  return files;
}

// All tensors are in the queue before the first is written, as with a disk that is slower than the run for a long time.
TEST_F(Trouble, AKilledRunThatHadMuchToWriteLosesOnlyTheLastMomentOfItsJournal) {
  constexpr std::size_t kElements = 2 << 20, kTensors = 40;
  const ::pid_t child = ::fork();
  if (child == 0) {
    Host run(plan_for(root));
    run.begin(kStep);
    const std::vector<float> values(kElements, 1);
    std::vector<Record> records;
    for (std::uint64_t i = 1; i <= kTensors; ++i) {
      records.push_back(run.record(run.op("Default/add-op" + std::to_string(i)), kStep, run.tensor(values, i)));
    }
    for (Record& record : records) run->push(std::move(record));
    for (;;) ::pause();
  }
  const auto sleep_ms = [](int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); };
  while (npy_files(rank).empty()) sleep_ms(1);
  sleep_ms(100);  // a fast disk has taken them all then
  while (npy_files(rank).size() < kTensors * 3 / 4) sleep_ms(1);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  const std::size_t whole = npy_files(rank).size();
  // A moment is longer where the thread of the journal waits for a core.
  EXPECT_GE(files_in(rank / ".dump_metadata/sonde/journal"), kTensors / 10) << "of " << whole;
}

Plan in_a_tree_without_ranks(Plan plan) {
  plan.sonde.layout = LayoutKind::mindspore_1_2;
  return plan;
}

TEST_F(Trouble, ASecondLiveRunIsRefusedWithTheProcessThatOwnsTheDirectory) {
  Host run(in_a_tree_without_ranks(plan_for(root)));
  run.begin(kStep);
  run->flush();
  Host second(in_a_tree_without_ranks(plan_for(root)));
  ASSERT_FALSE(second.is_open());
  EXPECT_EQ(second.refused().code, ErrorCode::busy);
  EXPECT_TRUE(second.refused().message.ends_with("process " + std::to_string(::getpid()) +
                                                 " is recording there; wait for it, or choose another path"))
      << second.refused().message;
  run->finish();
  EXPECT_TRUE(Host(in_a_tree_without_ranks(plan_for(root))).is_open());
}

TEST_F(Trouble, OfRunsThatClaimOneRankTogetherEachHasTheNextFreeDirectory) {
  std::vector<std::unique_ptr<Host>> hosts;
  for (int i = 0; i < 3; ++i) hosts.push_back(std::make_unique<Host>(plan_for(root)));
  for (int i = 0; i < 3; ++i) {
    Host& host = *hosts[static_cast<std::size_t>(i)];
    ASSERT_TRUE(host.is_open());
    host.begin(kStep);
    push_tensor(host, 1, 100);
    host->flush();
    EXPECT_FALSE(host->error());
    EXPECT_EQ(host->directory(), root / ("rank_" + std::to_string(i)));
  }
  (*hosts[0])->finish();
  Host later(plan_for(root));  // the rank's directory is free again
  later.begin(kStep);
  later->flush();
  EXPECT_EQ(later->directory(), root / "rank_0");
}

TEST_F(Trouble, ARankThatOnlyOpensDoesNotOwn) {
  {
    Host run(plan_for(root));
    run.begin(kStep);
    run->finish();
  }
  const Host waiting(plan_for(root));
  Host other(plan_for(root));
  other.begin(kStep);
  other->flush();
  EXPECT_FALSE(other->error());
}

TEST_F(Trouble, ADirectoryThatMayNotBeWrittenIsReportedBeforeTheFirstStep) {
  if (::getuid() != 0) GTEST_SKIP() << "runs as root only: root sees no refusal, so it becomes nobody";
  std::filesystem::create_directory(root);
  std::filesystem::permissions(root, std::filesystem::perms{0755});
  std::filesystem::permissions(directory.path(), std::filesystem::perms{0755});
  const int status = in_child([&] {
    if (::setgid(65534) != 0 || ::setuid(65534) != 0) return 2;
    const Host run(plan_for(root));
    return !run.is_open() &&
                   run.refused().message == "cannot write to directory '" + root.string() + "': permission denied"
               ? 0
               : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::is_empty(root));
}

TEST_F(Trouble, AFinishedRunIsAppendedToWithoutRootsRights) {
  std::filesystem::permissions(directory.path(), std::filesystem::perms{0777});
  const auto one_run = [&] {
    Host run(plan_for(root));
    if (!run.is_open()) return 3;
    run.begin(kStep);
    push_tensor(run, 1, 10);
    run.end(kStep);
    return run->finish().rows == 1 && !run->error() ? 0 : 4;
  };
  const int status = in_child([&] {
    if (::getuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) return 2;
    const int first = one_run();
    return first != 0 ? first : one_run();
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(npy_files(rank).size(), 1U + 1U);
}

TEST_F(Trouble, AForkedChildForgetsEverythingAndTheParentGoesOn) {
  Host run(plan_for(root));
  run.begin(kStep);
  push_tensor(run, 1, 10);
  run->flush();
  BlockPtr held = run->blocks().take(100);
  const int status = in_child([&] {
    run->abandon();
    push_tensor(run, 2, 10);
    run->flush();
    held.reset();
    const Totals totals = run->finish();
    return totals.files == 0 && !run->blocks().take(10) ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  push_tensor(run, 3, 10);
  run.end(kStep);
  EXPECT_EQ(run->finish().files, 2U);
  EXPECT_FALSE(run->error());
}

TEST_F(Trouble, AForkedChildThatLivesOnDoesNotKeepTheDirectoryLocked) {
  auto run = std::make_unique<Host>(plan_for(root));
  run->begin(kStep);
  (*run)->flush();
  int pipe_ends[2] = {};
  ASSERT_EQ(::pipe(pipe_ends), 0);
  const ::pid_t child = ::fork();
  if (child == 0) {
    (*run)->abandon();
    char byte = 1;
    static_cast<void>(!::write(pipe_ends[1], &byte, 1));
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(pipe_ends[0], &byte, 1), 1);
  run.reset();
  EXPECT_TRUE(Host(plan_for(root)).is_open());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ::close(pipe_ends[0]);
  ::close(pipe_ends[1]);
}

}  // namespace
}  // namespace sonde
