#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "answer.h"
#include "face/server/api.h"
#include "face/server/assets.h"
#include "face/server/guard.h"
#include "face/server/http.h"
#include "face/server/user_state.h"
#include "verbs.h"

namespace sonde {
namespace {

constexpr unsigned kAnswerThreads = 3;

// As browsers write it in an address and in `Host`: IPv6 short and in brackets.
std::string url_host(const std::string& host) {
  in6_addr address;
  char text[INET6_ADDRSTRLEN];
  if (::inet_pton(AF_INET6, host.c_str(), &address) != 1) return host;
  return fmt::format("[{}]", ::inet_ntop(AF_INET6, &address, text, sizeof text));
}

// The line that opens a way to this machine from another one.
std::string ssh_line(const ServeCommand& options, std::uint16_t port) {
  char host[256] = "HOST";
  ::gethostname(host, sizeof host - 1);
  const std::uint16_t here = port == 0 ? 8765 : port;
  const std::string there = options.socket.empty() ? fmt::format("{}:{}", url_host(options.bind), port)
                                                   : std::filesystem::absolute(options.socket).string();
  return fmt::format("ssh -L {}:{} {}", here, there, host);
}

bool is_local(const ServeCommand& options) {
  const std::string host = url_host(options.bind);
  return host == "127.0.0.1" || host == "[::1]";
}

// A token that others may read on its way is good for one server only.
Result<std::string> token_for(const ServeCommand& options) {
  if (!options.socket.empty()) return std::string();
  return is_local(options) ? server::user_token() : server::make_token();
}

void print_address(const ServeCommand& options, const server::HttpServer& http, const std::string& token) {
  const std::string host = url_host(options.bind);
  if (!options.socket.empty()) {
    print_text(fmt::format("{}\n", std::filesystem::absolute(options.socket).string()));
    print_notice(fmt::format("sonde: from your own machine: {}\n       then open http://127.0.0.1:8765/\n",
                             ssh_line(options, 0)));
    return;
  }
  print_text(fmt::format("http://{}:{}/#token={}\n", host, http.port(), token));
  if (is_local(options)) {
    print_notice(fmt::format("sonde: from another machine: {}\n       then open the same address there\n",
                             ssh_line(options, http.port())));
  } else {
    print_warning(
        fmt::format("{} is reached from other machines: the token and the data travel unencrypted; prefer the "
                    "default and ssh -L, or --socket",
                    options.bind));
  }
}

// A program that started the server holds the other end: it closes however the program ends.
void end_with_input() {
  std::thread([] {
    char ignored[64];
    while (::read(STDIN_FILENO, ignored, sizeof ignored) > 0) {
    }
    ::kill(::getpid(), SIGTERM);
  }).detach();
}

}  // namespace

int serve(const ServeCommand& options) {
  std::vector<std::filesystem::path> paths;
  for (const std::string& dump : options.dumps) {
    std::error_code error;
    if (!std::filesystem::exists(dump, error)) {
      print_error(fmt::format("cannot open dump '{}': {}", dump, error ? error.message() : "no such directory"));
      return kUnreadable;
    }
    paths.push_back(std::filesystem::absolute(dump).lexically_normal());
  }
  if (Status good = server::allow_frames(options.frames); !good) {
    print_error(good.error().message);
    return kBadUsage;
  }
  server::HttpAddress address;
  address.host = options.bind;
  address.port = static_cast<std::uint16_t>(options.port);
  address.socket = options.socket;
  Result<std::string> token = token_for(options);
  if (!token) return print_error(token.error(), kUnreadable);
  std::vector<std::string> allowed;
  for (const std::string& name : options.allowed_hosts) allowed.push_back(url_host(name));
  if (options.socket.empty()) allowed.push_back(url_host(options.bind));
  server::Api api(paths, {*token, allowed});
  Result<server::HttpServer> http = server::HttpServer::open(address);
  if (!http) return print_error(http.error(), http.error().code == ErrorCode::io ? kUnreadable : kBadUsage);
  api.start();
  print_address(options, *http, *token);
  if (options.open) {
    const std::string to = fmt::format("http://{}:{}/#token={}", url_host(options.bind), http->port(), *token);
    if (const Status opened = server::open_in_browser(to); !opened)
      print_warning(fmt::format("no browser was opened: {}", opened.error().message));
  }
  if (!server::has_page()) {
    print_notice(
        "sonde: this build has no page; install Node 20.19 or later and call scripts/setup, or use the REST "
        "interface (docs/rest.md)\n");
  }
  if (options.until_input_ends) end_with_input();
  http->run([&](const server::Request& request) { return api.answer(request); },
            [&](std::uint64_t after, std::uint64_t& last) { return api.events(after, last); }, kAnswerThreads);
  return kNothingFound;
}

}  // namespace sonde
