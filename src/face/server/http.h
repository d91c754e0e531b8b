// HttpServer: HTTP/1.1 on a port or a Unix socket. All of Boost.Beast is in http.cpp.
//
// A further connection than `connections` closes the oldest one that has shown no token, so nobody without it can keep the
// owner out. One thread reads and writes. `answer` runs on a pool of threads; a stream of events is written by the first thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "face/server/message.h"
#include "sonde/result.h"

namespace sonde::server {

struct HttpLimits {
  std::uint32_t header_bytes = 16 << 10;
  std::uint64_t body_bytes = 256 << 10;
  std::size_t connections = 64;
  unsigned silent_seconds = 5;    // until the first byte, and between requests without the token
  unsigned idle_seconds = 30;     // until the next request of a connection that has shown the token
  unsigned request_seconds = 10;  // for the whole of a request, and for each megabyte of an answer
};

struct HttpAddress {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;        // 0: a free one
  std::filesystem::path socket;  // not empty: a Unix socket of this path, mode 0600, instead
};

// Events after a number, as they are written to a stream; `last` gets the number of the last one.
using EventsAfter = std::function<std::string(std::uint64_t after, std::uint64_t& last)>;

class HttpServer {
 public:
  using Answer = std::function<Response(const Request&)>;

  // Binds the address. Fails with `busy` if it is in use.
  static Result<HttpServer> open(const HttpAddress& address, HttpLimits limits = {});
  HttpServer(HttpServer&&) noexcept;
  ~HttpServer();

  std::uint16_t port() const;
  // Serves until SIGINT or SIGTERM arrives, or stop() is called. `threads` answer.
  void run(const Answer& answer, const EventsAfter& events, unsigned threads);
  void stop();  // ends run(), from any thread

  struct State;  // of http.cpp

 private:
  explicit HttpServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sonde::server
