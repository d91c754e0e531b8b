#include "data_sources.h"

#include <map>
#include <unordered_map>

#include "leaked.h"
#include "program.h"
#include "setup.h"
#include "synchronized.h"

namespace sonde_torch {
namespace {

constexpr int kMostLines = 1 << 18;  // of a file; data may claim any number

struct DataSource {
  bool from_file = false;
  std::map<int, std::string> lines;
};

using DataSources = Synchronized<std::unordered_map<std::string, DataSource>>;  // by file

DataSources& data_sources() { return table_of_process<DataSources>(); }

// True if a line is new.
bool add_lines(DataSource& source, int number, std::string_view text) {
  bool fresh = false;
  for (; number > 0 && number <= kMostLines && !text.empty(); ++number) {
    const std::size_t end = text.find('\n');
    fresh = source.lines.try_emplace(number, text.substr(0, end)).second || fresh;
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return fresh;
}

// A file of these lines only.
std::string text_of_lines(const std::map<int, std::string>& lines) {
  std::string text;
  int at = 1;
  for (const auto& [number, line] : lines) {
    text.append(static_cast<std::size_t>(number - at), '\n').append(line);
    at = number;
  }
  return text;
}

}  // namespace

void keep_text_of_data(const std::string& file, int first_line, std::string_view text) {
  const bool known = data_sources().lock()->contains(file);
  const bool from_file = !known && may_read_source(file);  // asked without the lock: it may take the GIL
  const auto sources = data_sources().lock();
  const auto [at, fresh] = sources->try_emplace(file);
  DataSource& source = at->second;
  if (fresh) source.from_file = from_file;
  if (source.from_file) return;
  if (add_lines(source, first_line, text) || fresh) {
    api().source_text(file.c_str(), text_of_lines(source.lines).c_str());
  }
}

void forget_texts_of_data() { data_sources().lock()->clear(); }

}  // namespace sonde_torch
