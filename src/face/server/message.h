// Request and Response: a question of a browser or a script, and its answer. http.h carries them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sonde/result.h"

namespace sonde::server {

using Fields = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  std::string path;  // decoded, without the query: "/api/v1/ops"
  Fields query;      // decoded, in their order
  Fields headers;    // names in lower case
  std::string body;
  bool over_tcp = true;  // false: through a Unix socket, whose directory decides who may use it

  std::shared_ptr<const std::atomic<bool>> gone;  // set when the connection ends before the answer; null: never

  bool is_gone() const { return gone && *gone; }
  // Empty if there is none; of several the first.
  std::string_view header(std::string_view name) const;
};

struct Response {
  unsigned status = 200;
  std::string type = "application/json";
  Fields headers;
  std::string body;
  // Bytes after `body` that `owner` keeps.
  std::span<const char> tail;
  std::shared_ptr<const void> owner;
  // A stream of events after this number; it has no end.
  bool is_stream = false;
  std::uint64_t after = 0;
  bool is_for_owner = false;  // the request has shown the token
};

// RFC 9457: the words of the status, and `detail`.
Response problem(unsigned status, std::string_view detail);
// The status that belongs to the error's code.
Response problem(const Error& error);
Response json_response(std::string text);

// The target of a request in its parts. Fails on what is not a path with a query: a scheme, `..`, bad escapes.
Status parse_target(std::string_view target, Request& request);

}  // namespace sonde::server
