#include "face/server/http.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "server/served.h"

namespace sonde::server {
namespace {

std::string no_events(std::uint64_t, std::uint64_t&) { return ""; }

TEST(Http, AQuestionIsWithdrawnWhenItsConnectionEnds) {
  std::atomic<bool> began = false, ended = false;
  const RunningServer server(
      [&](const Request& request) {
        if (request.path == "/long") {
          began = true;
          ended = wait_for([&] { return request.is_gone(); });
        }
        return json_response("{}");
      },
      no_events);
  const int connection = server.connect();
  send_all(connection, "GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ASSERT_TRUE(wait_for([&] { return began.load(); }));
  EXPECT_FALSE(ended);
  ::close(connection);
  EXPECT_TRUE(wait_for([&] { return ended.load(); }));
  EXPECT_NE(server.get("/short").find("200 OK"), std::string::npos);  // the others go on
}

TEST(Http, AQuestionWhoseConnectionStaysIsNotWithdrawn) {
  std::atomic<int> withdrawn = 0;
  const RunningServer server(
      [&](const Request& request) {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        withdrawn += request.is_gone();
        return json_response("{\"path\": \"" + request.path + "\"}");
      },
      no_events);
  const int connection = server.connect();
  // The second question is there before the first has its answer.
  send_all(connection,
           "GET /a HTTP/1.1\r\nHost: localhost\r\n\r\nGET /b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  const std::string answer = all_of(connection);
  EXPECT_NE(answer.find("\"/a\""), std::string::npos);
  EXPECT_NE(answer.find("\"/b\""), std::string::npos);
  EXPECT_EQ(withdrawn, 0);
}

}  // namespace
}  // namespace sonde::server
