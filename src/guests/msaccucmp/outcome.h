// Outcome<T>: a value, or a failure as msaccucmp reports it: the exit status and a reason.
#pragma once

#include <optional>
#include <string>
#include <utility>

namespace sonde::msaccucmp {

// Exit statuses, with the numbers that scripts know.
enum class Code : int {
  ok = 0,
  unknown = 1,
  no_dump_file = 2,
  invalid_path = 3,
  invalid_parameter = 6,
  cannot_open = 7,
  invalid_dump_data = 11,
  out_of_range = 12,
  cannot_parse_json = 13,
  unusable_directory = 18,
  cannot_write = 19,
  not_comparable = 20,
  unsupported_type = 21,
  unsupported_format = 22,
  invalid_shape = 23,
  wrong_file_type = 24,
  conversion_failed = 26,
  invalid_rule = 29,
  unsupported_comparison = 30,
  unknown_algorithm = 31,
  invalid_fractal_nz = 34,
  invalid_task_type = 37,
  slices_mismatch = 40,
};

struct Failure {
  Code status = Code::unknown;
  std::string reason;
};

template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : value_(std::move(value)) {}
  Outcome(Failure failure) : failure_(std::move(failure)) {}

  explicit operator bool() const { return value_.has_value(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }
  const Failure& failure() const { return failure_; }  // only when the Outcome is false

 private:
  std::optional<T> value_;
  Failure failure_;
};

}  // namespace sonde::msaccucmp
