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

std::string_view SourceTexts::line(const std::string& file, std::uint32_t number) {
  File& found = file_of(file);
  if (!found.text || number == 0) return {};
  const std::string& text = *found.text;
  if (found.starts.empty()) {
    found.starts.push_back(0);
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (text[i] == '\n') found.starts.push_back(i + 1);
    }
  }
  if (number > found.starts.size()) return {};
  std::string_view line = std::string_view(text).substr(found.starts[number - 1]);
  line = line.substr(0, line.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

}  // namespace sonde
