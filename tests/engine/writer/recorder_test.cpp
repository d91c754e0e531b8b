#include "record/writer/recorder.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "dump/journal/journal.h"
#include "dump_fixture.h"

namespace sonde {
namespace {

using test::Host;
using test::mode_of;
using test::npy_files;
using test::plan_for;
using test::read_text;

constexpr StepId kFirst{0, 0};
constexpr StepId kSecond{0, 1};

class Dump : public testing::Test {
 protected:
  test::TemporaryDirectory directory;
  std::filesystem::path root = directory.path() / "dump";
  std::filesystem::path rank = root / "rank_0";

  Journal journal() {
    Result<Journal> read = read_journal(rank / ".dump_metadata/sonde/journal");
    EXPECT_TRUE(read) << read.error().message;
    return read ? std::move(*read) : Journal();
  }

  // One step with two ops; the second reads the result of the first.
  static void two_ops(Host& run, StepId step) {
    run.begin(step);
    TensorRecord out = run.tensor({1, 2, 3}, 1 + step.number * 10);
    TensorRecord in = run.again(out);
    in.is_input = true;
    run.push(run.op("Default/network-Net/mul-op0", "mul"), step, std::move(out));
    run.push(run.op("Default/network-Net/add-op0"), step, std::move(in), run.tensor({5, 5}, 2 + step.number * 10));
    run.end(step);
  }
};

TEST_F(Dump, TouchesNothingBeforeTheFirstStep) {
  Host run(plan_for(root));
  run.op("Default/add-op0");
  run->flush();
  EXPECT_FALSE(std::filesystem::exists(root));
  run->finish();
  EXPECT_FALSE(std::filesystem::exists(root));
}

TEST_F(Dump, OfAPlanThatChoosesByNameBeginsWithTheFirstOpItChooses) {
  Plan plan = plan_for(root);
  plan.dump_mode = DumpMode::kernels;
  Host run(plan);
  const auto push_step = [&](std::uint64_t iteration, bool chosen) {
    run.begin({0, iteration});
    Record record = run.record(run.op("Default/add-op0"), {0, iteration}, run.structure({2}));
    record.selected = chosen;
    for (TensorRecord& tensor : record.tensors) tensor.wanted = false;
    run->push(std::move(record));
    run.end({0, iteration});
  };
  for (std::uint64_t iteration = 0; iteration < 3; ++iteration) push_step(iteration, false);
  run->flush();
  EXPECT_FALSE(std::filesystem::exists(root));
  EXPECT_TRUE(run->totals().nothing_chosen);
  EXPECT_EQ(run->totals().ops, 3U);
  push_step(3, true);
  push_step(4, false);
  const Totals totals = run->finish();
  EXPECT_FALSE(totals.nothing_chosen);
  EXPECT_EQ(totals.steps, 2U);
  EXPECT_EQ(test::read_text(root / "rank_0/execution_order/ms_global_execution_order_graph_0.csv"), "3\n4\n");
  const Result<Journal> journal = read_journal(root / "rank_0/.dump_metadata/sonde/journal");
  ASSERT_TRUE(journal);
  ASSERT_EQ(journal->runs.at(0).records.size(), 6U);
  ASSERT_EQ(journal->runs[0].op_names.size(), 1U) << "what was defined before is known";
}

TEST_F(Dump, HasThePlaceInTheGraphOfEveryOpThatThePlanDoesNotSelect) {
  Plan plan = plan_for(root);
  plan.dump_mode = DumpMode::kernels;
  Host run(plan);
  std::vector<std::uint64_t> sequences;
  const auto push_op = [&](StepId step, bool chosen) {
    Record record = run.record(run.op("Default/add-op0"), step, run.structure({2, 3}));
    record.selected = chosen;
    record.tensors.front().wanted = chosen;
    record.tensors.front().timestamp_us = record.timestamp_us;
    record.tensors.front().source = record.sequence - 1;
    sequences.push_back(record.sequence);
    run->push(std::move(record));
  };
  // Two graphs at once; the first step of one ends with nothing chosen, while the other goes on.
  const StepId other{1, 0};
  run.begin(kFirst);
  run.begin(other);
  for (int i = 0; i < 200; ++i) push_op(kFirst, false);
  run.end(kFirst);
  sequences.clear();
  for (int i = 0; i < 200; ++i) push_op(other, false);
  run.begin(kSecond);
  for (int i = 0; i < 300; ++i) push_op(i % 3 == 0 ? other : kSecond, i == 150);
  run.end(kSecond);
  run.end(other);
  EXPECT_EQ(run->finish().ops, 500U);
  std::vector<std::uint64_t> found;
  const Journal journal = this->journal();
  for (const JournalRecord& record : journal.runs.at(0).records) {
    if (record.kind != RecordKind::op) continue;
    found.push_back(record.sequence);
    ASSERT_EQ(record.tensors.size(), 1U);
    EXPECT_EQ(record.tensors[0].source, record.sequence - 1);
    EXPECT_EQ(record.tensors[0].shape, Dims({2, 3}));
  }
  EXPECT_EQ(found, sequences);
}

TEST_F(Dump, HasTheTreeOfMindSpore) {
  Host run(plan_for(root));
  two_ops(run, kFirst);
  const Totals totals = run->finish();
  EXPECT_FALSE(run->error());
  EXPECT_EQ(test::files_below(rank),
            (std::vector<std::string>{
                ".dump_metadata/config.json", ".dump_metadata/data_dump.json", ".dump_metadata/sonde/journal",
                ".dump_metadata/sonde/owner",
                "Net/0/0/"
                "add.Default_network-Net_add-op0.0.0.1700000000000001.input.0.DefaultFormat.Float32.npy",
                "Net/0/0/"
                "add.Default_network-Net_add-op0.0.0.1700000000000002.output.0.DefaultFormat.Float32.npy",
                "Net/0/0/"
                "mul.Default_network-Net_mul-op0.0.0.1700000000000000.output.0.DefaultFormat.Float32.npy",
                "Net/0/0/statistic.csv", "execution_order/ms_execution_order_graph_0.csv",
                "execution_order/ms_global_execution_order_graph_0.csv", "graphs/ms_output_trace_code_graph_0.ir",
                "graphs/ms_output_trace_code_graph_0.pb", "graphs/steps_graph_0.csv"}));
  EXPECT_EQ(totals.steps, 1U);
  EXPECT_EQ(totals.ops, 2U);
  EXPECT_EQ(totals.tensors, 3U);
  EXPECT_EQ(totals.files, 3U);
  EXPECT_EQ(totals.rows, 3U);
  const std::string table = test::read_text(rank / "Net/0/0/statistic.csv");
  EXPECT_EQ(totals.bytes_written, 20U + table.size() - (table.find('\n') + 1)) << "tensors, and rows of the table";
}

TEST_F(Dump, TextFilesAreExact) {
  Host run(plan_for(root));
  two_ops(run, kFirst);
  run->finish();
  EXPECT_EQ(read_text(rank / "Net/0/0/statistic.csv"),
            "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,"
            "Max Value,Min Value,L2Norm Value\n"
            "mul,Default/network-Net/mul-op0,0,0,1700000000000000,output,0,12,float32,\"[3]\",1,1,0,\n"
            "add,Default/network-Net/add-op0,0,0,1700000000000001,input,0,12,float32,\"[3]\",1,1,0,\n"
            "add,Default/network-Net/add-op0,0,0,1700000000000002,output,0,8,float32,\"[2]\",5,5,0,\n");
  EXPECT_EQ(read_text(rank / "execution_order/ms_execution_order_graph_0.csv"),
            "NodeExecutionOrder-FullNameWithScope\nDefault/network-Net/mul-op0\n"
            "Default/network-Net/add-op0\n");
  EXPECT_EQ(read_text(rank / "execution_order/ms_global_execution_order_graph_0.csv"), "0\n");
  EXPECT_EQ(read_text(rank / ".dump_metadata/data_dump.json"), plan_for(root).source_text);
  EXPECT_EQ(read_text(rank / ".dump_metadata/config.json"), "{\"device_target\":\"CPU\",\"ms_version\":\"2.7.0\"}");
}

TEST_F(Dump, IsForItsOwnerOnlyAndReadOnlyWhenFinished) {
  Host run(plan_for(root));
  two_ops(run, kFirst);
  run->finish();
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root)) {
    EXPECT_EQ(mode_of(entry.path()), entry.is_directory() ? 0700U : 0400U) << entry.path();
  }
}

TEST_F(Dump, TableOfAFinishedStepIsClosedWhileTheRunGoesOn) {
  Host run(plan_for(root));
  two_ops(run, kFirst);
  run.begin(kSecond);
  run.push(run.op("Default/add-op0"), kSecond, run.tensor({1}, 99));
  run->flush();
  EXPECT_EQ(mode_of(rank / "Net/0/0/statistic.csv"), 0400U);
  EXPECT_EQ(mode_of(rank / "Net/0/1/statistic.csv"), 0600U);
  run->finish();
  EXPECT_EQ(mode_of(rank / "Net/0/1/statistic.csv"), 0400U);
}

TEST_F(Dump, OfTensorsHasNoTableAndOfStatisticsNoTensors) {
  {
    Host run(plan_for(root, SavedData::tensor));
    two_ops(run, kFirst);
    EXPECT_EQ(run->finish().rows, 0U);
  }
  EXPECT_EQ(npy_files(rank).size(), 3U);
  EXPECT_FALSE(std::filesystem::exists(rank / "Net/0/0/statistic.csv"));
  rank = directory.path() / "other/rank_0";
  Host run(plan_for(directory.path() / "other", SavedData::statistic));
  two_ops(run, kFirst);
  EXPECT_EQ(run->finish().files, 0U);
  EXPECT_TRUE(npy_files(rank).empty());
  EXPECT_TRUE(std::filesystem::exists(rank / "Net/0/0/statistic.csv"));
}

TEST_F(Dump, JournalKnowsWhatWasNotWantedButTheTableDoesNot) {
  Host run(plan_for(root));
  run.begin(kFirst);
  TensorRecord structure_only = run.structure({2, 2});
  structure_only.wanted = false;
  run.push(run.op("Default/add-op0"), kFirst, std::move(structure_only));
  run.end(kFirst);
  run->finish();
  EXPECT_FALSE(std::filesystem::exists(rank / "Net"));
  EXPECT_EQ(read_text(rank / "execution_order/ms_execution_order_graph_0.csv"),
            "NodeExecutionOrder-FullNameWithScope\nDefault/add-op0\n");
  const Journal read = journal();
  ASSERT_EQ(read.runs.size(), 1U);
  ASSERT_EQ(read.runs[0].records.size(), 3U);
  EXPECT_EQ(read.runs[0].records[1].tensors.size(), 1U);
}

TEST_F(Dump, JournalNamesTheFileOfEverySlot) {
  Host run(plan_for(root));
  two_ops(run, kFirst);
  run->finish();
  const Journal read = journal();
  ASSERT_EQ(read.runs.size(), 1U);
  EXPECT_EQ(read.torn_bytes, 0U);
  EXPECT_FALSE(read.runs[0].end_json.empty());
  std::size_t named = 0;
  for (const JournalRecord& record : read.runs[0].records) {
    for (const JournalTensor& tensor : record.tensors) {
      EXPECT_TRUE(std::filesystem::exists(rank / tensor.file)) << tensor.file;
      ++named;
    }
  }
  EXPECT_EQ(named, 3U);
}

TEST_F(Dump, RowsAreInSequenceOrderHoweverTheRecordsArrive) {
  Host run(plan_for(root, SavedData::statistic));
  run.begin(kFirst);
  std::vector<Record> records;
  for (int i = 0; i < 50; ++i) {
    records.push_back(run.record(run.op("Default/add-op" + std::to_string(i)), kFirst, run.tensor({1}, 100 + i)));
  }
  Record end;
  end.kind = RecordKind::step_end;
  end.sequence = run->next_sequence();
  run->push(std::move(end));
  std::reverse(records.begin(), records.end());
  for (Record& record : records) run->push(std::move(record));
  run->finish();
  std::string expected = "NodeExecutionOrder-FullNameWithScope\n";
  for (int i = 0; i < 50; ++i) expected += "Default/add-op" + std::to_string(i) + "\n";
  EXPECT_EQ(read_text(rank / "execution_order/ms_execution_order_graph_0.csv"), expected);
  const std::string table = read_text(rank / "Net/0/0/statistic.csv");
  std::size_t at = 0;
  for (int i = 0; i < 50; ++i) {
    const std::size_t found = table.find("/add-op" + std::to_string(i) + ",");
    ASSERT_NE(found, std::string::npos);
    EXPECT_GT(found, at);
    at = found;
  }
}

TEST_F(Dump, TensorsAreWrittenWhileAnEarlierOpIsStillRunning) {
  Host run(plan_for(root, SavedData::tensor));
  run.begin(kFirst);
  Record slow = run.record(run.op("Default/slow-op0"), kFirst, run.tensor({1, 2}, 1));
  run.push(run.op("Default/fast-op0"), kFirst, run.tensor({3, 4}, 2));
  for (int i = 0; i < 2000 && npy_files(rank).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_EQ(npy_files(rank).size(), 1U);
  run->push(std::move(slow));
  run->finish();
  EXPECT_EQ(npy_files(rank).size(), 2U);
}

TEST_F(Dump, ABudgetHeldByAWaitingOrderNeverBlocks) {
  Plan plan = plan_for(root, SavedData::tensor);
  plan.sonde.budget_bytes = 64 << 10;
  Host run(plan);
  run.begin(kFirst);
  const std::uint64_t never_pushed = run->next_sequence();
  for (int i = 0; i < 40; ++i) {
    run.push(run.op("Default/add-op" + std::to_string(i)), kFirst,
             run.tensor(std::vector<float>(4 << 10, static_cast<float>(i)), 10 + i));
  }
  run->skip(never_pushed);
  run->finish();
  EXPECT_EQ(npy_files(rank).size(), 40U);
}

TEST_F(Dump, FlushPutsEverythingPushedOnDiskEvenBehindAnOpenOp) {
  Host run(plan_for(root, SavedData::statistic));
  run.begin(kFirst);
  Record slow = run.record(run.op("Default/slow-op0"), kFirst, run.tensor({1}, 1));
  run.push(run.op("Default/fast-op0"), kFirst, run.tensor({1}, 2));
  run->flush();
  EXPECT_NE(read_text(rank / "Net/0/0/statistic.csv").find("Default/fast-op0"), std::string::npos);
  run->push(std::move(slow));
  run->flush();
  EXPECT_NE(read_text(rank / "Net/0/0/statistic.csv").find("Default/slow-op0"), std::string::npos);
}

TEST_F(Dump, AppendsReachTheDiskSoonWithoutAFlush) {
  Host run(plan_for(root, SavedData::statistic));
  run.begin(kFirst);
  run.push(run.op("Default/add-op0"), kFirst, run.tensor({1}, 1));
  const std::filesystem::path table = rank / "Net/0/0/statistic.csv";
  for (int i = 0; i < 2000 && read_text(table).empty(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EXPECT_NE(read_text(table).find("Default/add-op0"), std::string::npos);
}

TEST_F(Dump, EachGraphHasItsOwnOrderOfItsFirstStepAndAHistoryOfAll) {
  Host run(plan_for(root));
  two_ops(run, kFirst);
  run.begin({1, 0});
  run.push(run.op("Default/eval-op0"), {1, 0}, run.tensor({1}, 50));
  run.end({1, 0});
  run.begin({0, 7});
  run.push(run.op("Default/later-op0"), {0, 7}, run.tensor({1}, 51));
  run.end({0, 7});
  run->finish();
  const std::filesystem::path orders = rank / "execution_order";
  EXPECT_EQ(read_text(orders / "ms_execution_order_graph_0.csv"),
            "NodeExecutionOrder-FullNameWithScope\nDefault/network-Net/mul-op0\n"
            "Default/network-Net/add-op0\n");
  EXPECT_EQ(read_text(orders / "ms_execution_order_graph_1.csv"),
            "NodeExecutionOrder-FullNameWithScope\nDefault/eval-op0\n");
  EXPECT_EQ(read_text(orders / "ms_global_execution_order_graph_0.csv"), "0\n7\n");
  EXPECT_EQ(read_text(orders / "ms_global_execution_order_graph_1.csv"), "0\n");
}

TEST_F(Dump, AStepThatDidNotEndIsInTheHistoryToo) {
  Host run(plan_for(root));
  run.begin({0, 3});
  run.push(run.op("Default/add-op0"), {0, 3}, run.tensor({1}, 1));
  run->finish();
  EXPECT_EQ(read_text(rank / "execution_order/ms_global_execution_order_graph_0.csv"), "3\n");
  EXPECT_EQ(read_text(rank / "execution_order/ms_execution_order_graph_0.csv"),
            "NodeExecutionOrder-FullNameWithScope\nDefault/add-op0\n");
}

TEST_F(Dump, OfAFinishedRunIsAppendedTo) {
  {
    Host run(plan_for(root));
    two_ops(run, kFirst);
    run->finish();
  }
  Plan plan = plan_for(root);
  plan.source_text = "{\"second\": 1}";
  Host run(plan);
  ASSERT_TRUE(run.is_open()) << run.refused().message;
  run.begin(kFirst);
  run.push(run.op("Default/other-op0"), kFirst, run.tensor({8}, 1));
  run.end(kFirst);
  run->finish();
  EXPECT_FALSE(run->error());
  EXPECT_EQ(npy_files(rank).size(), 4U);
  const std::string table = read_text(rank / "Net/0/0/statistic.csv");
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 5);
  EXPECT_EQ(table.find("Op Type", 1), std::string::npos);
  EXPECT_EQ(read_text(rank / "execution_order/ms_global_execution_order_graph_0.csv"), "0\n0\n");
  EXPECT_EQ(read_text(rank / "execution_order/ms_execution_order_graph_0.csv"),
            "NodeExecutionOrder-FullNameWithScope\nDefault/other-op0\n");
  EXPECT_EQ(read_text(rank / ".dump_metadata/data_dump.json"), plan_for(root).source_text);
  EXPECT_EQ(read_text(rank / ".dump_metadata/sonde/run_2.json"), "{\"second\": 1}");
  EXPECT_EQ(journal().runs.size(), 2U);
}

TEST_F(Dump, FinishCanBeCalledAgain) {
  Host run(plan_for(root));
  two_ops(run, kFirst);
  EXPECT_EQ(run->finish().files, 3U);
  EXPECT_EQ(run->finish().files, 3U);
  EXPECT_FALSE(run->blocks().take(1));
  two_ops(run, kSecond);  // ignored
  EXPECT_FALSE(std::filesystem::exists(rank / "Net/0/1"));
}

TEST_F(Dump, KeepsStatisticsOfATensorWhoseBytesFoundNoRoom) {
  Host run(plan_for(root));
  run.begin(kFirst);
  TensorRecord tensor = run.tensor({1, 2}, 4);
  tensor.bytes.reset();
  tensor.skipped = "statistics only: the budget was full";
  run.push(run.op("Default/add-op0"), kFirst, std::move(tensor));
  const Totals totals = run->finish();
  EXPECT_EQ(totals.rows, 1U);
  EXPECT_EQ(totals.files, 0U);
}

}  // namespace
}  // namespace sonde
