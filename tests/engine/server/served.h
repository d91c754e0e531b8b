// Server: one that runs in this process, behind a Unix socket, and what it answers.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <thread>

#include "catalog/dump_files.h"
#include "face/server/http.h"

namespace sonde::server {

class RunningServer {
 public:
  RunningServer(HttpServer::Answer answer, EventsAfter events);
  ~RunningServer();

  // A connection; the caller, or all_of, closes it.
  int connect() const;
  // The whole answer to a request without a body.
  std::string get(std::string_view target) const { return ask("GET", target, ""); }
  std::string ask(std::string_view method, std::string_view target, std::string_view body) const;

 private:
  TemporaryDirectory directory_;
  HttpServer http_;
  std::thread thread_;
};

// All that comes until the server ends the connection.
std::string all_of(int connection);
void send_all(int connection, std::string_view text);
// Looks every few milliseconds, for 20 seconds.
bool wait_for(const std::function<bool()>& holds);

}  // namespace sonde::server
