#include "serve.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "answer.h"
#include "face/server/api.h"
#include "face/server/assets.h"
#include "face/server/guard.h"
#include "face/server/http.h"

namespace sonde {
namespace {

constexpr unsigned kAnswerThreads = 3;

struct ServeOptions {
  std::vector<std::string> dumps;
  server::HttpAddress address;
  std::string socket;
  std::vector<std::string> allowed_hosts, frames;
  bool until_input_ends = false;
};

// As browsers write it in an address and in `Host`: IPv6 short and in brackets.
std::string url_host(const std::string& host) {
  in6_addr address;
  char text[INET6_ADDRSTRLEN];
  if (::inet_pton(AF_INET6, host.c_str(), &address) != 1) return host;
  return fmt::format("[{}]", ::inet_ntop(AF_INET6, &address, text, sizeof text));
}

// The line that opens a way to this machine from another one.
std::string ssh_line(const ServeOptions& options, std::uint16_t port) {
  char host[256] = "HOST";
  ::gethostname(host, sizeof host - 1);
  const std::uint16_t here = port == 0 ? 8765 : port;
  const std::string there = options.socket.empty() ? fmt::format("{}:{}", url_host(options.address.host), port)
                                                   : std::filesystem::absolute(options.socket).string();
  return fmt::format("ssh -L {}:{} {}", here, there, host);
}

void print_address(const ServeOptions& options, const server::HttpServer& http, const std::string& token) {
  const std::string host = url_host(options.address.host);
  const bool is_local = host == "127.0.0.1" || host == "[::1]";
  if (!options.socket.empty()) {
    print_text(fmt::format("{}\n", std::filesystem::absolute(options.socket).string()));
    print_notice(fmt::format("sonde: from your own machine: {}\n       then open http://127.0.0.1:8765/\n",
                             ssh_line(options, 0)));
    return;
  }
  print_text(fmt::format("http://{}:{}/#token={}\n", host, http.port(), token));
  if (is_local) {
    print_notice(fmt::format("sonde: from another machine: {}\n       then open the same address there\n",
                             ssh_line(options, http.port())));
  } else {
    print_warning(
        fmt::format("{} is reached from other machines: the token and the data travel unencrypted; prefer the "
                    "default and ssh -L, or --socket",
                    options.address.host));
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

int serve(const ServeOptions& options) {
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
  server::HttpAddress address = options.address;
  address.socket = options.socket;
  Result<std::string> token = options.socket.empty() ? server::make_token() : Result<std::string>("");
  if (!token) {
    print_error(token.error().message);
    return kUnreadable;
  }
  std::vector<std::string> allowed;
  for (const std::string& name : options.allowed_hosts) allowed.push_back(url_host(name));
  if (options.socket.empty()) allowed.push_back(url_host(options.address.host));
  server::Api api(paths, {*token, allowed});
  Result<server::HttpServer> http = server::HttpServer::open(address);
  if (!http) {
    print_error(http.error().message);
    return http.error().code == ErrorCode::io ? kUnreadable : kBadUsage;
  }
  api.start();
  print_address(options, *http, *token);
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

}  // namespace

void add_serve(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<ServeOptions>();
  CLI::App* verb = app.add_subcommand("serve", "Show a dump, or two, in a browser, also while it is being written.");
  verb->add_option("DUMP", options->dumps, "directory of a dump; a second one is golden, to compare the first with")
      ->type_name("")
      ->required()
      ->expected(1, 2);
  CLI::Option* port = verb->add_option("--port", options->address.port, "port to listen on (default: a free one)")
                          ->type_name("N")
                          ->check(CLI::Range(0, 65535));
  CLI::Option* bind =
      verb->add_option("--bind", options->address.host, "address to listen on (default: 127.0.0.1, this machine alone)")
          ->type_name("ADDRESS");
  verb->add_option("--socket", options->socket, "listen on a Unix socket of this path instead, which only you can open")
      ->type_name("PATH")
      ->excludes(port)
      ->excludes(bind);
  verb->add_option("--allow-host", options->allowed_hosts,
                   "a further name by which a browser may reach the server, as behind a proxy; repeatable")
      ->type_name("NAME")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_option("--frame", options->frames,
                   "an origin whose pages may show this one in a frame, as http://localhost:8888 or\n"
                   "http://localhost:* (default: none may); repeatable")
      ->type_name("ORIGIN")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_flag("--until-input-ends", options->until_input_ends,
                 "end when standard input ends, for programs that start the server");
  verb->footer(
      "Prints the address, with a token that the page needs; ends with Ctrl-C. Programs: docs/rest.md.\n"
      "Exit status: 0 ended, 2 bad usage or a port in use, 3 dump unreadable.\n"
      "Example: sonde serve run7\n"
      "         sonde serve run7 golden7 --socket ~/sonde.sock");
  verb->callback([options, &exit_status] { exit_status = serve(*options); });
}

}  // namespace sonde
