// The server in this process, asked for everything by several threads while its dump grows and jobs begin and are cancelled:
// for the address, undefined-behaviour and thread sanitizers.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "face/server/api.h"
#include "face/server/rows.h"
#include "server/served.h"

namespace sonde::server {
namespace {

constexpr const char* kOp = "name=Default/Add-op1";
const std::array kTargets = {"status",
                             "openapi.json",
                             "overview",
                             "health",
                             "health?by=op&w=1&h=1",
                             "gradients",
                             "scopes",
                             "source",
                             "search?q=Add",
                             "conditions",
                             "jobs",
                             "ops?sort=-nan_tensors",
                             "tensors?sort=dtype&filter=nan_count%3E0",
                             "tensors?sort=-l2norm",
                             "graph?step=0",
                             "graph?step=0&part=edges",
                             "pairs",
                             "jobs/1",
                             "nothing",
                             "tensors?filter=op:("};
const std::array kOfOp = {"op",
                          "path?direction=cause",
                          "trend",
                          "tensor/statistics",
                          "tensor/histogram?bins=4",
                          "tensor/heat?w=2&h=2",
                          "tensor/values?slice=0",
                          "tensor/next?of=nan",
                          "tensor/file"};

void write_step(const TemporaryDirectory& dump, unsigned number) {
  const std::string step = "rank_0/Net/0/" + std::to_string(number);
  dump.write(step + "/Add.Default_Add-op1.0.0.1700000000000002.output.0.DefaultFormat.npy",
             npy("<f4", "(2,)", bytes_of({1, static_cast<float>(number)})));
  dump.write(step + "/Add.Default_Add-op1.0.0.1700000000000001.input.0.DefaultFormat.npy",
             npy("<f4", "(1,)", bytes_of({2})));
  dump.write(step + "/statistic.csv",
             "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,"
             "L2Norm Value,NaN Count\n"
             "Add,Default/Add-op1,0,0,1700000000000001,input,0,4,float32,\"(1)\",2,-0,2,0\n"
             "Add,Default/Add-op1,0,0,1700000000000002,output,0,8,float32,\"(2)\",nan,-inf,nan,1\n");
}

bool is_ready(const RunningServer& server) {
  const std::string status = server.get("/api/v1/status");
  return status.find("\"state\":\"ready\"") != std::string::npos;
}

TEST(Threads, EveryEndpointIsAskedWhileTheDumpGrowsAndJobsAreCancelled) {
  ::setenv("SONDE_INDEX", "off", 1);
  const TemporaryDirectory dump;
  for (unsigned step = 0; step < 3; ++step) write_step(dump, step);
  Api api({dump.path(), dump.path()}, {});
  api.start();
  const RunningServer server([&](const Request& request) { return api.answer(request); },
                             [&](std::uint64_t after, std::uint64_t& last) { return api.events(after, last); });
  ASSERT_TRUE(wait_for([&] { return is_ready(server); }));
  std::vector<std::thread> askers;
  std::atomic<int> answered = 0, wrong = 0;
  for (std::size_t thread = 0; thread < 3; ++thread) {
    askers.emplace_back([&, thread] {
      const auto ask = [&](const std::string& path) {
        const std::string answer = server.get("/api/v1/" + path);
        ++answered;
        if (!answer.starts_with("HTTP/1.1 ") || answer.starts_with("HTTP/1.1 500")) {
          ++wrong;
          ADD_FAILURE() << path << ": " << answer.substr(0, 2000);
        }
      };
      for (std::size_t round = 0; round < 4; ++round) {
        for (std::size_t i = 0; i < kTargets.size(); ++i) ask(kTargets[(i + 7 * thread) % kTargets.size()]);
        for (const std::string path : kOfOp) {
          ask(path + (path.find('?') == std::string::npos ? "?" : "&") + kOp + "&step=0");
        }
      }
    });
  }
  std::thread grows([&] {
    for (unsigned step = 3; step < 6; ++step) {
      write_step(dump, step);
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
    }
  });
  for (int number = 1; number <= 4; ++number) {
    const char* const kind = number % 2 == 0 ? "measure" : "first-bad";
    EXPECT_NE(server.ask("POST", "/api/v1/jobs", "{\"kind\": \"" + std::string(kind) + "\"}").find("202"),
              std::string::npos);
    const int stream = server.connect();  // one that follows, and goes away
    send_all(stream, "GET /api/v1/events?after=0 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    server.ask("DELETE", "/api/v1/jobs/" + std::to_string(number), "");
    ::close(stream);
  }
  for (std::thread& thread : askers) thread.join();
  grows.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(answered, 3 * 4 * static_cast<int>(kTargets.size() + kOfOp.size()));
  EXPECT_TRUE(wait_for([&] { return server.get("/api/v1/health").find("\"last_step\":5") != std::string::npos; }));
}

// A job of first-bad has ended: what it names are infinities of an op, whether the dump has some or not.
std::shared_ptr<const Judgement> judgement_of_add() {
  Judgement judgement;
  judgement.infinities[{"0", 0, "Default/Add-op1", false, 0}].push_back({StepSet::all(), State::infinity});
  return std::make_shared<const Judgement>(std::move(judgement));
}

TEST(Facts, AreReadAgainOnlyWhereAJobChangesThem) {
  for (const std::string largest : {"nan", "inf"}) {
    const TemporaryDirectory dump;
    dump.write("rank_0/Net/0/0/statistic.csv",
               "Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,"
               "L2Norm Value\nAdd,Default/Add-op1,0,0,1700000000000002,output,0,8,float32,\"(2)\"," +
                   largest + ",0," + largest + "\n");
    const Result<std::shared_ptr<Snapshot>> snapshot = Snapshot::open(dump.path(), 1, {});
    ASSERT_TRUE(snapshot);
    const std::shared_ptr<const Facts> before = *(*snapshot)->facts();
    (*snapshot)->judge(judgement_of_add());
    const std::shared_ptr<const Facts> judged = *(*snapshot)->facts();
    EXPECT_EQ(judged == before, largest == "nan");
    EXPECT_EQ(judged->ops.at(0).state, largest == "nan" ? State::nan : State::infinity);
    Judgement measured = *judgement_of_add();
    measured.measured[tensor_key(0, 0)] = KnownStatistics();
    (*snapshot)->judge(std::make_shared<const Judgement>(std::move(measured)));
    EXPECT_NE(*(*snapshot)->facts(), judged);
  }
}

TEST(Rows, ASearchThatNobodyWaitsForEndsAndIsNotKept) {
  const TemporaryDirectory dump;
  for (unsigned step = 0; step < 2; ++step) write_step(dump, step);
  const Result<std::shared_ptr<Snapshot>> snapshot = Snapshot::open(dump.path(), 1, {});
  ASSERT_TRUE(snapshot);
  const std::shared_ptr<const Facts> facts = *(*snapshot)->facts();
  for (const RowsOf of : {RowsOf::ops, RowsOf::tensors}) {
    RowQuery query;
    query.of = of;
    query.key = of == RowsOf::ops ? "ops" : "tensors";
    query.sort = of == RowsOf::ops ? "-nan_tensors" : "-l2norm";
    query.is_gone = [] { return true; };
    EXPECT_FALSE(find_rows(**snapshot, *facts, query));
    query.is_gone = [] { return false; };
    const Result<RowList> rows = find_rows(**snapshot, *facts, query);
    ASSERT_TRUE(rows);
    EXPECT_EQ((*rows)->size(), of == RowsOf::ops ? 2 : 4);
  }
}

}  // namespace
}  // namespace sonde::server

// A job is this program again, with the words of a verb: it works until it is cancelled.
int main(int argc, char** argv) {
  if (argc > 1 && argv[1][0] != '-') {
    ::pause();
    return 2;
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
