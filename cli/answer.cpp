#include "answer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

#include "colour.h"
#include "face/report/text.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/safe_path.h"

namespace sonde {
namespace {

constexpr std::size_t kProblemsShown = 5;

std::string dump(const Json& json, int indent) {
  return with_source_names(json_for_terminal(text_of_json(json, indent)));
}

// Indented as a member of a document: by two blanks more.
std::string indented(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c;
    if (c == '\n') out += "  ";
  }
  return out;
}

bool write(std::FILE* file, std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), file) == text.size() && std::fflush(file) == 0;
}

bool print_json(std::string_view text) {
  if (write(stdout, text)) return true;
  print_error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  return false;
}

// 0 or an errno.
int write_and_close(Fd file, std::string_view with_paths) {
  const std::string text = with_source_names(std::string(with_paths));
  const int error = write_all(file.get(), text.data(), text.size());
  const bool is_closed = ::close(file.release()) == 0;
  return error != 0 || is_closed ? error : errno;
}

}  // namespace

Answer& Answer::get() {
  static Answer answer;
  return answer;
}

void Answer::add(std::string_view name, const Json& value) {
  if (form_ != AnswerForm::json) return;
  if (in_list_) members_ += has_rows_ ? "\n  ]" : "]";
  in_list_ = false;
  members_ += fmt::format("{}\n  {}: {}", members_.empty() ? "" : ",", dump(Json(name), -1), indented(dump(value, 2)));
}

void Answer::add(const Json& object) {
  for (const auto& [name, value] : object.items()) add(name, value);
}

void Answer::begin_list(std::string_view name) {
  add(name, Json::array());
  if (form_ != AnswerForm::json) return;
  members_.pop_back();  // the closing bracket
  in_list_ = true;
  has_rows_ = false;
}

void Answer::add_row(const Json& row) {
  if (form_ == AnswerForm::json_lines) {
    const std::string line = dump(row, -1) + "\n";
    std::fwrite(line.data(), 1, line.size(), stdout);  // finish() checks that everything was written
  } else if (form_ == AnswerForm::json) {
    members_ += (has_rows_ ? ",\n    " : "\n    ") + dump(row, -1);
    has_rows_ = true;
  }
}

void Answer::note_problem(const Problem& problem) {
  if (!known_problems_.insert(problem).second) return;
  problems_.push_back({{"path", problem.path.string()}, {"message", problem.message}});
}

void Answer::add_problems(const std::vector<Problem>& problems) {
  std::size_t added = 0;
  for (const Problem& problem : problems) {
    if (known_problems_.contains(problem)) continue;
    note_problem(problem);
    if (++added > kProblemsShown) continue;
    const std::string text = problem.path.empty() ? problem.message : problem.path.string() + ": " + problem.message;
    print_notice("sonde: warning: " + printable(text) + "\n");
  }
  if (added > kProblemsShown) {
    print_notice(fmt::format("sonde: warning: {} more files could not be read completely\n", added - kProblemsShown));
  }
}

bool Answer::print_document(int status) {
  Json error;
  if (!errors_.empty()) error = {{"message", joined(errors_, "\n")}, {"status", status}};
  if (form_ == AnswerForm::json_lines) return error.is_null() || print_json(dump({{"error", error}}, -1) + "\n");
  add("problems", problems_);
  add("warnings", warnings_);
  if (!error.is_null()) add("error", error);
  return print_json("{" + members_ + "\n}\n");
}

int Answer::finish(int status) {
  if (is_incomplete_ && (status == kNothingFound || status == kFinding)) status = kUnreadable;
  if (is_json() && !print_document(status)) return kUnreadable;
  if (status != kNothingFound && status != kFinding) return status;  // earlier failures are already reported
  std::cout.flush();
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  print_error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
  return kUnreadable;
}

bool print_text(std::string_view text) {
  return print_json(painted(text, [](std::string_view line) { return with_source_names(text_for_terminal(line)); }));
}

int print_error(const Error& error, int status) {
  print_error(error.message);
  return status;
}

int status_of(const Error& error) {
  return print_error(error, error.code == ErrorCode::invalid_argument ? kBadUsage : kUnreadable);
}

bool write_new(const std::string& path, std::string_view text) {
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  const bool is_made = static_cast<bool>(file);
  const int error = is_made ? write_and_close(std::move(file), text) : errno;
  if (error != 0 && is_made) ::unlink(path.c_str());
  if (error != 0) print_error(fmt::format("cannot write '{}': {}", path, std::strerror(error)));
  return error == 0;
}

bool write_file(const std::string& path, std::string_view text) {
  Result<Fd> file = open_output(path, OutputMode::rewrite);
  if (!file) {
    print_error(file.error().message);
    return false;
  }
  const int error = write_and_close(std::move(*file), text);
  if (error != 0) print_error(io_error("write", path, error).message);
  return error == 0;
}

void print_notice(std::string_view text) { write(stderr, with_source_names(text_for_terminal(text))); }

void print_error(const std::string& message) {
  Answer::get().note_error(message);
  print_notice("sonde: error: " + printable(message) + "\n");
}

void print_warning(const std::string& message) {
  Answer::get().note_warning(message);
  print_notice("sonde: warning: " + printable(message) + "\n");
}

}  // namespace sonde
