// Fields: reads the payload of a journal entry from its first byte on. journal_reader.cpp finds the entries.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "dump/formats/little_endian.h"
#include "dump/journal/journal.h"

namespace sonde {

// Takes fields from the front of a payload. After the first field that does not fit, `good` is false and every further
// answer is zero or empty, so callers check once, at the end.
class Fields {
 public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}

  bool good() const { return good_; }
  std::size_t left() const { return rest_.size(); }
  void fail() {
    good_ = false;
    rest_ = {};
  }

  std::string_view take(std::uint64_t size) {
    if (size > rest_.size()) {
      fail();
      return {};
    }
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(size));
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::uint8_t u8() {
    const std::string_view byte = take(1);
    return byte.empty() ? std::uint8_t{0} : static_cast<std::uint8_t>(byte[0]);
  }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = u8();
      if (shift == 63 && byte > 1) break;  // more than 64 bits
      value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return good_ ? value : 0;
    }
    fail();
    return 0;
  }

  template <typename T>
  T number() {
    const std::uint64_t value = varint();
    if (value > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) fail();
    return good_ ? static_cast<T>(value) : T{0};
  }

  std::int64_t signed_number() {
    const std::uint64_t value = varint();
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }

  double f64() {
    const std::string_view bytes = take(8);
    if (bytes.empty()) return 0;
    return little<double>(bytes, 0);
  }

  float f32() {
    const std::string_view bytes = take(4);
    if (bytes.empty()) return 0;
    return little<float>(bytes, 0);
  }

  std::string text() { return std::string(take(varint())); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

// The content of an entry of each type. Afterwards `fields.good()` is false if the payload does not fit the type.
JournalRecord take_record(Fields& fields);
Site take_site(Fields& fields);
OpName take_op_name(Fields& fields);
Attributes take_attributes(Fields& fields);
JournalFile take_file(Fields& fields);

}  // namespace sonde
