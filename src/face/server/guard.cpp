#include "face/server/guard.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "ground/base/text.h"
#include "plan/config/printable.h"

namespace sonde::server {
namespace {

// Takes the same time wherever they differ. The length is known to everybody.
bool equal_in_constant_time(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  unsigned different = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    different |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
  }
  return different == 0;
}

// "[::1]:8765" becomes "[::1]".
std::string_view without_port(std::string_view host) {
  const std::size_t bracket = host.rfind(']');
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string_view::npos && (bracket == std::string_view::npos || colon > bracket);
  return has_port ? host.substr(0, colon) : host;
}

std::string_view host_of_origin(std::string_view origin) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (origin.starts_with(scheme)) return origin.substr(scheme.size());
  }
  return {};  // `null`, and other schemes
}

Response refused(std::string_view header, std::string_view value, std::string_view cure) {
  return problem(403,
                 fmt::format("refused: {} is '{}'; {}", header, printable(std::string(value.substr(0, 200))), cure));
}

}  // namespace

Result<std::string> make_token() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Error{ErrorCode::io, std::string("cannot make a token: ") + std::strerror(errno)};
  }
  std::string token;
  for (const unsigned char byte : bytes) token += fmt::format("{:02x}", byte);
  return token;
}

bool Guard::is_our_host(std::string_view host) const {
  const std::string_view name = without_port(host);
  for (const std::string_view ours : {"127.0.0.1", "localhost", "[::1]"}) {
    if (same_ignoring_case(name, ours)) return true;
  }
  return std::ranges::any_of(allowed_hosts_, [&](const std::string& ours) { return same_ignoring_case(name, ours); });
}

std::optional<Response> Guard::refuse(const Request& request, bool is_api) const {
  const std::string_view host = request.header("host");
  if (!is_our_host(host)) return refused("Host", host, "start the server with --allow-host if it is yours");
  const auto count = [&](std::string_view name) {
    return std::ranges::count(request.headers, name, &std::pair<std::string, std::string>::first);
  };
  for (const std::string_view name : {"host", "origin", "authorization"}) {
    if (count(name) > 1) return problem(400, fmt::format("the request has several headers '{}'", name));
  }
  if (count("origin") == 1 && !is_our_host(host_of_origin(request.header("origin")))) {
    return refused("Origin", request.header("origin"), "another page may not ask this server");
  }
  if (!is_api) return std::nullopt;
  const std::string_view site = request.header("sec-fetch-site");
  if (!site.empty() && site != "same-origin" && site != "none") {
    return refused("Sec-Fetch-Site", site, "another page may not ask this server");
  }
  if (token_.empty() && !request.over_tcp) return std::nullopt;
  constexpr std::string_view kScheme = "Bearer ";
  const std::string_view authorization = request.header("authorization");
  const bool is_bearer =
      authorization.size() >= kScheme.size() && same_ignoring_case(authorization.substr(0, kScheme.size()), kScheme);
  if (is_bearer && !token_.empty() && equal_in_constant_time(authorization.substr(kScheme.size()), token_)) {
    return std::nullopt;
  }
  return problem(401,
                 "the token is missing or wrong; send `Authorization: Bearer TOKEN` with that of the address that "
                 "`sonde serve` printed");
}

namespace {

std::string frame_ancestors = "'none'";

// "http://localhost:8888", "https://[::1]:*"
bool is_origin(std::string_view text) {
  const std::string_view host = host_of_origin(text);
  const std::string_view name = without_port(host);
  const std::string_view port = host.substr(std::min(host.size(), name.size() + 1));
  const bool has_port = name.size() < host.size();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  const auto is_name = [&](char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' || c == '-';
  };
  const bool is_port = port == "*" || (!port.empty() && std::ranges::all_of(port, is_digit));
  return !name.empty() && (name == "[::1]" || std::ranges::all_of(name, is_name)) && (!has_port || is_port);
}

}  // namespace

Status allow_frames(const std::vector<std::string>& origins) {
  for (const std::string& origin : origins) {
    if (!is_origin(origin)) {
      return Error{ErrorCode::invalid_argument,
                   fmt::format("--frame '{}': expected an origin, as http://localhost:8888", origin)};
    }
    frame_ancestors = origin == origins.front() ? origin : frame_ancestors + " " + origin;
  }
  return {};
}

const Fields& security_headers() {
  static const Fields headers = {
      {"Content-Security-Policy",
       "default-src 'none'; script-src 'self'; worker-src 'self'; style-src 'self'; img-src 'self' blob: data:; "
       "connect-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; "
       "trusted-types sonde-worker; frame-ancestors " +
           frame_ancestors},
      {"X-Content-Type-Options", "nosniff"},
      {"Referrer-Policy", "no-referrer"},
      {"Cross-Origin-Opener-Policy", "same-origin"},
      {"Cross-Origin-Resource-Policy", "same-origin"},
  };
  return headers;
}

}  // namespace sonde::server
