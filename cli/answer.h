// The output of a call: the only place that writes to standard output and standard error. Text may come from a dump of
// unknown origin: control characters are made visible.
//
// With --json a verb fills one document. main() prints it at the end, with the files that could not be read
// (`problems`), other remarks (`warnings`) and, if the call failed, the reason (`error`).
#pragma once

#include <compare>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "face/report/json.h"

namespace sonde {

inline constexpr int kNothingFound = 0;
inline constexpr int kFinding = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kUnreadable = 3;

enum class AnswerForm {
  text,
  json,        // one document
  json_lines,  // a line for each row of the verb's list
};

struct Problem {
  std::filesystem::path path;  // empty: the message contains it
  std::string message;
  auto operator<=>(const Problem&) const = default;
};

class Answer {
 public:
  // Of this call; main() chooses its form.
  static Answer& get();

  void set_form(AnswerForm form) { form_ = form; }
  AnswerForm form() const { return form_; }
  bool is_json() const { return form_ != AnswerForm::text; }

  // An answer without its problems and warnings.
  template <HasMembers Object>
  void add(const Object& answer) {
    add(json_of(answer));
  }
  // Its rows come one by one, and are lines with --jsonl: `for_each` calls its argument with each of them.
  template <HasMembers Object, typename Row, typename ForEach>
  void add(const Object& answer, std::vector<Row> Object::*rows, const ForEach& for_each);

  // One member of the document, or all members of an object. Ignored if the form is lines.
  void add(std::string_view name, const Json& value);
  void add(const Json& object);
  // A list that may be long: its rows are kept as text, or printed at once as lines.
  void begin_list(std::string_view name);
  void add_row(const Json& row);

  // Files that could not be read, or only in part: the first few are printed on stderr, all are in the document.
  void add_problems(const std::vector<Problem>& problems);
  void note_problem(const Problem& problem);  // one that is already reported
  // Something requested could not be read: the exit status is 3, whatever was found in the rest.
  void set_incomplete() { is_incomplete_ = true; }
  bool is_incomplete() const { return is_incomplete_; }
  void note_warning(const std::string& message) { warnings_.push_back(message); }
  void note_error(const std::string& message) { errors_.push_back(message); }

  // Prints the remaining output, and returns the exit status.
  int finish(int status);

 private:
  bool print_document(int status);

  AnswerForm form_ = AnswerForm::text;
  std::string members_;  // without the braces
  bool in_list_ = false;
  bool has_rows_ = false;
  bool is_incomplete_ = false;
  std::set<Problem> known_problems_;  // a dump may be opened twice
  Json problems_ = Json::array();
  std::vector<std::string> warnings_, errors_;
};

template <HasMembers Object, typename Row, typename ForEach>
void Answer::add(const Object& answer, std::vector<Row> Object::*rows, const ForEach& for_each) {
  const auto add_member = [&]<typename Value>(const Member<Object, Value>& member) {
    if constexpr (std::same_as<Value, std::vector<Row>>) {
      if (member.at == rows) {
        begin_list(member.name);
        for_each([this](const Row& row) { add_row(json_of(row)); });
        return;
      }
    }
    Json json = Json::object();
    contract::put(json, answer, member);
    add(json);
  };
  Members<Object>::each([&](const auto&... member) { (add_member(member), ...); });
}

// Writes to stdout; false, with a line on stderr, if it cannot (a closed pipe ends the program silently).
bool print_text(std::string_view text);
// Writes a file of its own; false, with a line on stderr, if it cannot. A file that is there is an error.
bool write_new(const std::string& path, std::string_view text);
// The same; a file that is there gets the text.
bool write_file(const std::string& path, std::string_view text);

// Writes to stderr; control characters are made visible.
void print_notice(std::string_view text);

// "error: …" or "warning: …", one line on stderr; also in the document.
void print_error(const std::string& message);
// The same; returns the status.
int print_error(const Error& error, int status);
// The same; the status is that of bad usage if an argument is wrong, else of an unreadable dump.
int status_of(const Error& error);
void print_warning(const std::string& message);

}  // namespace sonde
