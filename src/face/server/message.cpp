#include "face/server/message.h"

#include <algorithm>
#include <optional>

#include "face/report/json.h"
#include "ground/base/text.h"
#include "ground/contract/json.h"
#include "plan/config/printable.h"

namespace sonde::server {
namespace {

std::string_view title_of(unsigned status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 401:
      return "Unauthorized";
    case 403:
      return "Forbidden";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 409:
      return "Conflict";
    case 413:
      return "Content Too Large";
    case 416:
      return "Range Not Satisfiable";
    case 422:
      return "Unprocessable Content";
    case 429:
      return "Too Many Requests";
    case 503:
      return "Service Unavailable";
    default:
      return "Internal Server Error";
  }
}

unsigned status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
      return 422;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::busy:
      return 409;
    default:
      return 500;
  }
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// Empty on a wrong escape and on a zero byte.
std::optional<std::string> decoded(std::string_view text, bool plus_is_blank) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '%') {
      const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
      const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
      if (high < 0 || low < 0) return std::nullopt;
      c = static_cast<char>(high * 16 + low);
      i += 2;
    } else if (c == '+' && plus_is_blank) {
      c = ' ';
    }
    if (c == '\0') return std::nullopt;
    out += c;
  }
  return out;
}

Error bad_target(std::string_view target) {
  return Error{ErrorCode::invalid_argument, "cannot read the request's address '" +
                                                printable(std::string(target.substr(0, 200))) +
                                                "': expected a path and a query"};
}

}  // namespace

std::string_view Request::header(std::string_view name) const {
  const auto found = std::ranges::find(headers, name, &std::pair<std::string, std::string>::first);
  return found == headers.end() ? std::string_view() : found->second;
}

Response problem(unsigned status, std::string_view detail) {
  Response response;
  response.status = status;
  response.type = "application/problem+json";
  const Json json = {{"title", title_of(status)}, {"status", status}, {"detail", detail}};
  response.body = text_of_json(json);
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 503) response.headers.emplace_back("Retry-After", "1");
  return response;
}

Response problem(const Error& error) { return problem(status_of(error.code), error.message); }

Response json_response(std::string text) {
  Response response;
  response.body = std::move(text);
  return response;
}

Status parse_target(std::string_view target, Request& request) {
  const std::size_t question = target.find('?');
  const std::string_view path = target.substr(0, question);
  const std::optional<std::string> plain = decoded(path, false);
  if (!plain || !plain->starts_with('/') || plain->find("..") != std::string::npos) return bad_target(target);
  request.path = *plain;
  const std::string_view query = question == std::string_view::npos ? std::string_view() : target.substr(question + 1);
  for (const std::string_view part : split(query, '&')) {
    if (part.empty()) continue;
    const std::size_t equals = part.find('=');
    const std::optional<std::string> name = decoded(part.substr(0, equals), true);
    const std::optional<std::string> value =
        equals == std::string_view::npos ? "" : decoded(part.substr(equals + 1), true);
    if (!name || !value) return bad_target(target);
    request.query.emplace_back(*name, *value);
  }
  return {};
}

}  // namespace sonde::server
