// Result<T>: a value or an Error. The engine never throws or prints inside a host; it returns one of these.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace sonde {

enum class ErrorCode {
  invalid_argument,  // the caller or the configuration asked for something that is not legal
  not_found,         // a file, an op, a step that should exist does not
  io,                // the operating system refused
  corrupt,           // bytes that break the rules of their format
  unsupported,       // legal, but this build, host or version cannot do it
  busy,              // somebody else owns it (a live run on the same directory)
};

// `message` names the operation, the object and the cause, in lower case, without a full stop.
struct Error {
  ErrorCode code = ErrorCode::invalid_argument;
  std::string message;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return value_.has_value(); }
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return std::move(*value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Error& error() const { return error_; }  // only when the Result is false

 private:
  std::optional<T> value_;
  Error error_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  explicit operator bool() const { return !error_.has_value(); }
  const Error& error() const { return *error_; }

 private:
  std::optional<Error> error_;
};

using Status = Result<void>;

}  // namespace sonde
