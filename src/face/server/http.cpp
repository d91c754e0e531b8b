#include "face/server/http.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http.hpp>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <deque>

#include "face/server/guard.h"
#include "ground/base/text.h"

namespace sonde::server {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Protocol = asio::generic::stream_protocol;
using Code = boost::system::error_code;

constexpr std::size_t kChunk = 1 << 20;
constexpr auto kPause = std::chrono::milliseconds(100);
constexpr auto kEventLook = std::chrono::milliseconds(100);
constexpr auto kHeartbeat = std::chrono::seconds(15);

}  // namespace

class Session;

struct HttpServer::State {
  HttpLimits limits;
  asio::io_context io{1};
  asio::basic_socket_acceptor<Protocol> acceptor{io};
  asio::steady_timer pause{io};                 // of accept()
  std::deque<std::weak_ptr<Session>> sessions;  // the oldest first; they own themselves
  std::filesystem::path socket;                 // removed at the end
  std::uint16_t port = 0;
  bool over_tcp = true;
  const Answer* answer = nullptr;
  const EventsAfter* events = nullptr;
  asio::thread_pool* pool = nullptr;

  void accept();
  bool make_room(std::size_t most);
};

// One connection. Owned by the operations that wait for it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Protocol::socket socket, HttpServer::State& server) : stream_(std::move(socket)), server_(server) {}

  void wait() {
    const HttpLimits& limits = server_.limits;
    stream_.expires_after(std::chrono::seconds(is_of_owner_ ? limits.idle_seconds : limits.silent_seconds));
    if (buffer_.size() > 0) return read();
    stream_.async_read_some(buffer_.prepare(4096), [self = shared_from_this()](Code error, std::size_t bytes) {
      if (error) return;
      self->buffer_.commit(bytes);
      self->read();
    });
  }

  // Of a connection that is being answered it is not known yet.
  bool may_be_closed() const { return !is_of_owner_ && !is_asking_; }

  void close() {
    Code ignored;
    stream_.socket().close(ignored);
  }

  void refuse_connection() {
    Response response = problem(503, "too many connections; close some");
    keep_alive_ = false;
    write(std::move(response));
  }

 private:
  void read() {
    parser_.emplace();
    parser_->header_limit(server_.limits.header_bytes);
    parser_->body_limit(server_.limits.body_bytes);
    stream_.expires_after(std::chrono::seconds(server_.limits.request_seconds));
    http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](Code error, std::size_t) {
      if (error) return self->fail(error);
      self->ask();
    });
  }

  // Says what was wrong where a word can still be read; then the connection ends, since the rest is not a request.
  void fail(Code error) {
    keep_alive_ = false;
    if (error == http::error::header_limit || error == http::error::body_limit) {
      return write(problem(413, fmt::format("the request is larger than {} KB",
                                            (error == http::error::header_limit ? server_.limits.header_bytes
                                                                                : server_.limits.body_bytes) /
                                                1024)));
    }
    static const auto& kOfHttp = http::make_error_code(http::error::bad_method).category();
    if (error == http::error::end_of_stream || error.category() != kOfHttp) return;
    write(problem(400, "the request is not HTTP/1.1: " + error.message()));
  }

  void ask() {
    const auto& message = parser_->get();
    request_ = {};
    request_.over_tcp = server_.over_tcp;
    request_.method = std::string(message.method_string());
    for (const auto& field : message) {
      request_.headers.emplace_back(lower_case({field.name_string().data(), field.name_string().size()}),
                                    std::string(field.value()));
    }
    request_.body = message.body();
    keep_alive_ = message.keep_alive();
    if (Status good = parse_target({message.target().data(), message.target().size()}, request_); !good) {
      return write(problem(400, good.error().message));
    }
    stream_.expires_never();  // the answer takes as long as it takes
    is_asking_ = true;
    watch_for_end();
    asio::post(*server_.pool, [self = shared_from_this()] {
      auto response = std::make_shared<Response>();
      if (!self->request_.is_gone()) *response = (*self->server_.answer)(self->request_);
      asio::post(self->server_.io, [self, response] {
        Code ignored;
        self->stream_.socket().cancel(ignored);  // watch_for_end
        self->is_asking_ = false;
        self->is_of_owner_ = self->is_of_owner_ || response->is_for_owner;
        if (!self->request_.is_gone()) self->write(std::move(*response));
      });
    });
  }

  // Until the answer is there: a browser that does not want it any more closes the connection.
  void watch_for_end() {
    auto gone = std::make_shared<std::atomic<bool>>(false);
    request_.gone = gone;
    stream_.socket().async_wait(Protocol::socket::wait_read, [self = shared_from_this(), gone](Code error) {
      if (error) return;
      char next = 0;
      const ssize_t found = ::recv(self->stream_.socket().native_handle(), &next, 1, MSG_PEEK | MSG_DONTWAIT);
      *gone = found == 0 || (found < 0 && errno != EAGAIN && errno != EINTR);
    });
  }

  void write(Response response) {
    response_ = std::move(response);
    http::response<http::empty_body> head;
    head.version(11);
    head.result(response_.status);
    head.set(http::field::content_type, response_.type);
    for (const Fields* fields : {&security_headers(), &std::as_const(response_).headers}) {
      for (const auto& [name, value] : *fields) head.set(name, value);
    }
    if (response_.is_stream) keep_alive_ = false;
    head.keep_alive(keep_alive_);
    if (!response_.is_stream) {
      head.content_length(response_.body.size() + response_.tail.size());
    }
    head_ = (std::ostringstream() << head.base()).str();
    written_ = 0;
    write_rest();
  }

  // The next megabyte of head, body and tail, which are one sequence of bytes.
  void write_rest() {
    const std::string_view parts[] = {head_, response_.body, {response_.tail.data(), response_.tail.size()}};
    std::vector<asio::const_buffer> buffers;
    std::size_t before = 0, taken = 0;
    for (const std::string_view part : parts) {
      const std::size_t from = std::clamp(written_, before, before + part.size()) - before;
      const std::size_t size = std::min(part.size() - from, kChunk - taken);
      if (size > 0) buffers.emplace_back(part.data() + from, size);
      taken += size;
      before += part.size();
    }
    if (taken == 0) return end();
    stream_.expires_after(std::chrono::seconds(server_.limits.request_seconds));
    asio::async_write(stream_, buffers, [self = shared_from_this()](Code error, std::size_t bytes) {
      if (error) return;
      self->written_ += bytes;
      self->write_rest();
    });
  }

  void end() {
    if (response_.is_stream) return follow();
    response_ = {};
    if (keep_alive_) return wait();
    Code ignored;
    stream_.socket().shutdown(Protocol::socket::shutdown_send, ignored);
  }

  // Writes events as they come.
  void follow() {
    std::string text = (*server_.events)(response_.after, response_.after);
    const auto now = std::chrono::steady_clock::now();
    if (text.empty() && now - last_write_ > kHeartbeat) text = ":\n\n";
    if (text.empty()) {
      timer_.emplace(server_.io, kEventLook);
      timer_->async_wait([self = shared_from_this()](Code error) {
        if (!error) self->follow();
      });
      return;
    }
    last_write_ = now;
    head_ = std::move(text);
    stream_.expires_after(std::chrono::seconds(server_.limits.request_seconds));
    asio::async_write(stream_, asio::buffer(head_), [self = shared_from_this()](Code error, std::size_t) {
      if (!error) self->follow();
    });
  }

  beast::basic_stream<Protocol> stream_;
  HttpServer::State& server_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  Request request_;
  Response response_;
  std::string head_;
  std::size_t written_ = 0;
  bool keep_alive_ = false;
  bool is_of_owner_ = false, is_asking_ = false;
  std::optional<asio::steady_timer> timer_;
  std::chrono::steady_clock::time_point last_write_ = std::chrono::steady_clock::now();
};

namespace {

Error cannot_listen(const std::string& where, const Code& error, const std::string& cure) {
  const bool in_use = error == boost::system::errc::address_in_use;
  return Error{in_use ? ErrorCode::busy : ErrorCode::io,
               fmt::format("cannot listen on {}: {}{}", where, in_use ? "it is in use" : error.message(),
                           in_use ? "; " + cure : "")};
}

}  // namespace

void HttpServer::State::accept() {
  acceptor.async_accept([this](Code error, Protocol::socket accepted) {
    if (!acceptor.is_open()) return;
    if (error) {  // no descriptor is left, for example; what waits would be tried again at once, and again
      if (!sessions.empty() && make_room(0)) return accept();
      pause.expires_after(kPause);
      return pause.async_wait([this](Code stopped) {
        if (!stopped) accept();
      });
    }
    const bool has_room = make_room(limits.connections - 1);
    auto session = std::make_shared<Session>(std::move(accepted), *this);
    if (has_room) sessions.push_back(session);
    has_room ? session->wait() : session->refuse_connection();
    accept();
  });
}

// Closes the oldest connection that has shown no token if there are more than `most`. False: it found none.
bool HttpServer::State::make_room(std::size_t most) {
  std::erase_if(sessions, [](const std::weak_ptr<Session>& session) { return session.expired(); });
  if (sessions.size() <= most) return true;
  for (auto at = sessions.begin(); at != sessions.end(); ++at) {
    const std::shared_ptr<Session> session = at->lock();
    if (session && !session->may_be_closed()) continue;
    if (session) session->close();
    sessions.erase(at);
    return true;
  }
  return false;
}

HttpServer::HttpServer(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpServer::HttpServer(HttpServer&&) noexcept = default;

HttpServer::~HttpServer() {
  if (state_ && !state_->socket.empty()) ::unlink(state_->socket.c_str());
}

Result<HttpServer> HttpServer::open(const HttpAddress& address, HttpLimits limits) {
  auto state = std::make_unique<State>();
  state->limits = limits;
  Code error;
  Protocol::endpoint endpoint;
  std::string where;
  if (address.socket.empty()) {
    const asio::ip::address ip = asio::ip::make_address(address.host, error);
    if (error) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("cannot listen on '{}': expected an address such as 127.0.0.1 or ::1", address.host)};
    }
    endpoint = asio::ip::tcp::endpoint(ip, address.port);
    where = fmt::format("{} port {}", address.host, address.port);
  } else {
    if (address.socket.native().size() >= sizeof(sockaddr_un::sun_path)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("cannot listen on '{}': the path of a socket has at most {} bytes",
                               address.socket.native(), sizeof(sockaddr_un::sun_path) - 1)};
    }
    struct stat status {};
    if (::lstat(address.socket.c_str(), &status) == 0 && !S_ISSOCK(status.st_mode)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("cannot listen on '{}': it exists, and is not a socket; choose another path",
                               address.socket.native())};
    }
    endpoint = asio::local::stream_protocol::endpoint(address.socket.native());
    where = "'" + address.socket.native() + "'";
    state->over_tcp = false;
  }
  state->acceptor.open(endpoint.protocol(), error);
  if (!error && state->over_tcp) state->acceptor.set_option(asio::socket_base::reuse_address(true), error);
  const mode_t mask = ::umask(0177);  // the socket is for this user alone from its first moment
  if (!error) state->acceptor.bind(endpoint, error);
  ::umask(mask);
  if (!error && !state->over_tcp) state->socket = address.socket;
  if (!error) state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return cannot_listen(where, error,
                         state->over_tcp ? "choose another with --port, or leave it out for a free one"
                                         : "remove it if no server uses it");
  }
  if (state->over_tcp) {
    const Protocol::endpoint bound = state->acceptor.local_endpoint();
    asio::ip::tcp::endpoint tcp;
    tcp.resize(bound.size());
    std::memcpy(tcp.data(), bound.data(), bound.size());
    state->port = tcp.port();
  }
  return HttpServer(std::move(state));
}

std::uint16_t HttpServer::port() const { return state_->port; }

void HttpServer::stop() { state_->io.stop(); }

void HttpServer::run(const Answer& answer, const EventsAfter& events, unsigned threads) {
  asio::thread_pool pool(threads);
  state_->answer = &answer;
  state_->events = &events;
  state_->pool = &pool;
  asio::signal_set signals(state_->io, SIGINT, SIGTERM);
  signals.async_wait([this](Code, int) { state_->io.stop(); });
  state_->accept();
  state_->io.run();
  pool.stop();
  pool.join();
}

}  // namespace sonde::server
