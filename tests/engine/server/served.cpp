#include "server/served.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

namespace sonde::server {
namespace {

HttpServer opened_at(const std::filesystem::path& socket) {
  HttpAddress address;
  address.socket = socket;
  Result<HttpServer> http = HttpServer::open(address);
  EXPECT_TRUE(http) << (http ? "" : http.error().message);
  return std::move(*http);
}

}  // namespace

RunningServer::RunningServer(HttpServer::Answer answer, EventsAfter events)
    : http_(opened_at(directory_.path() / "socket")),
      thread_([this, answer = std::move(answer), events = std::move(events)] { http_.run(answer, events, 3); }) {}

RunningServer::~RunningServer() {
  http_.stop();
  thread_.join();
}

int RunningServer::connect() const {
  const int connection = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (directory_.path() / "socket").c_str());
  EXPECT_EQ(::connect(connection, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  return connection;
}

std::string RunningServer::ask(std::string_view method, std::string_view target, std::string_view body) const {
  const int connection = connect();
  std::string text = std::string(method) + " " + std::string(target) +
                     " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nAccept: */*\r\n";
  if (!body.empty()) {
    text += "Content-Type: application/json\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  }
  send_all(connection, text + "\r\n" + std::string(body));
  return all_of(connection);
}

void send_all(int connection, std::string_view text) {
  EXPECT_EQ(::send(connection, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

std::string all_of(int connection) {
  std::string answer;
  char part[4096];
  for (ssize_t size = 0; (size = ::read(connection, part, sizeof part)) > 0;) {
    answer.append(part, static_cast<std::size_t>(size));
  }
  ::close(connection);
  return answer;
}

bool wait_for(const std::function<bool()>& holds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

}  // namespace sonde::server
