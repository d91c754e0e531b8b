// JsonReader: reads a JSON text of any size once, from front to back, and reports where it is malformed. It
// also takes NaN, Infinity and -Infinity, as Python writes them.
//
//   JsonReader json(text);
//   std::string key;
//   if (json.enter_object())
//     while (json.next_key(key)) {
//       if (key == "shape") …; else json.skip();
//     }
//   if (json.failed()) … json.problem()
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sonde {

class JsonReader {
 public:
  enum class Kind : std::uint8_t { object, array, text, number, boolean, null, none };  // none: at the end, or failed

  explicit JsonReader(std::string_view text);

  // The kind of the next value, if a value is allowed here.
  Kind peek();

  // Each begins a container; false, without reading anything, if the next value is of another kind. Then ask for the
  // next key or item until there is none; after true, its value must be read or skipped.
  bool enter_object() { return enter(Kind::object); }
  bool next_key(std::string& key);
  bool enter_array() { return enter(Kind::array); }
  bool next_item();

  // Each reads one value; false, without reading anything, if it is of another kind.
  bool take_text(std::string& out);
  bool take_number(double& out);
  bool take_integer(std::int64_t& out);  // a number without fraction that fits
  bool take_boolean(bool& out);
  bool take_null();
  void skip();  // a value of any kind

  // For look-ahead: the current position, and a return to it.
  struct Place {
    std::size_t at, depth;
    bool is_first;
  };
  Place place() const { return {at_, depth_, is_first_}; }
  void back_to(Place place);

  bool failed() const { return !problem_.empty(); }
  // The byte, the text found there and the expected one; empty if there was no error.
  const std::string& problem() const { return problem_; }

 private:
  bool enter(Kind kind);
  void fail(std::string_view expected);
  void skip_space();
  bool next(char open, char close);
  bool take_word(std::string_view word);
  bool read_text(std::string* out);
  bool read_escape(std::string* out);
  bool read_unit(std::uint32_t& unit);
  std::string_view number_text();
  bool leave(char close);

  std::string_view text_;
  std::size_t at_ = 0, depth_ = 0;
  bool is_first_ = true;  // of its container
  std::string problem_;
};

}  // namespace sonde
