// Row: the values of one row for an INSERT.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <type_traits>

#include "read/index/sqlite.h"

namespace sonde {

// Sets the parameters of a statement, from the first to the last.
class Row {
 public:
  explicit Row(Statement& statement) : statement_(statement) {}

  template <typename Value>
  Row& add(const Value& value) {
    if constexpr (std::is_convertible_v<Value, std::string_view>) {
      statement_.set(next_++, std::string_view(value));
    } else if constexpr (std::is_floating_point_v<Value>) {
      statement_.set(next_++, static_cast<double>(value));
    } else {
      statement_.set(next_++, static_cast<std::int64_t>(value));
    }
    return *this;
  }
  Row& add_null() {
    statement_.set_null(next_++);
    return *this;
  }
  template <typename Value>
  Row& add_unless(bool is_null, const Value& value) {
    return is_null ? add_null() : add(value);
  }
  template <typename Value>
  Row& add_known(const std::optional<Value>& value) {
    return value ? add(*value) : add_null();
  }
  bool run() { return statement_.run(); }

 private:
  Statement& statement_;
  int next_ = 0;
};

}  // namespace sonde
