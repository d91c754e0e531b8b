// Guard: refuses requests of others. docs/rest.md, "Security", has the rules.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "face/server/message.h"

namespace sonde::server {

// 128 random bits as text, from the operating system.
Result<std::string> make_token();

class Guard {
 public:
  // `token` empty: none is asked for (a Unix socket). `allowed_hosts`: further names for `Host`, without a port.
  Guard(std::string token, std::vector<std::string> allowed_hosts)
      : token_(std::move(token)), allowed_hosts_(std::move(allowed_hosts)) {}

  // The answer to a request that is refused; empty: it may be answered. `is_api`: data, not the page's own files.
  std::optional<Response> refuse(const Request& request, bool is_api) const;

 private:
  bool is_our_host(std::string_view host) const;

  std::string token_;
  std::vector<std::string> allowed_hosts_;
};

// Headers of every answer: what the page may do, and that nobody else may use it.
const Fields& security_headers();
// Lets pages of these origins show the page in a frame, as http://localhost:8888 or http://localhost:*. Without a call no page
// may. Before the first request.
Status allow_frames(const std::vector<std::string>& origins);

}  // namespace sonde::server
