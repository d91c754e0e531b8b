#include "dump/graph/source_text.h"

#include <utility>

namespace sonde {

void SourceTexts::set(const std::string& file, std::optional<std::string> text) {
  files_.erase(file);
  files_[file].text = std::move(text);
}

SourceTexts::File& SourceTexts::file_of(const std::string& file) {
  const auto [it, fresh] = files_.try_emplace(file);
  if (fresh) it->second.text = read_(file);
  return it->second;
}

const std::string* SourceTexts::text(const std::string& file) {
  const File& found = file_of(file);
  return found.text ? &*found.text : nullptr;
}

const std::vector<std::string_view>& SourceTexts::lines(const std::string& file) {
  File& found = file_of(file);
  if (!found.text || !found.lines.empty()) return found.lines;
  std::string_view rest = *found.text;
  while (true) {
    const std::size_t end = rest.find('\n');
    std::string_view& line = found.lines.emplace_back(rest.substr(0, end));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (end == std::string_view::npos) return found.lines;
    rest.remove_prefix(end + 1);
  }
}

std::string_view SourceTexts::line(const std::string& file, std::uint32_t number) {
  const std::vector<std::string_view>& all = lines(file);
  return number == 0 || number > all.size() ? std::string_view() : all[number - 1];
}

}  // namespace sonde
