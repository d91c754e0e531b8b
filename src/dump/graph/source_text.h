// SourceTexts: the lines of the source files that a graph names.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sonde {

class SourceTexts {
 public:
  // Returns the bytes of a file, or nothing if it has none; called once per file.
  using Read = std::function<std::optional<std::string>(const std::string& file)>;
  explicit SourceTexts(Read read) : read_(std::move(read)) {}

  // The text comes from elsewhere (a cell of a notebook has no file); without one the file is unknown, and not read.
  void set(const std::string& file, std::optional<std::string> text);
  // Null if the file is unknown.
  const std::string* text(const std::string& file);
  // Without its line end; empty when unknown. Lines count from 1.
  std::string_view line(const std::string& file, std::uint32_t number);
  // All of them; none when unknown.
  const std::vector<std::string_view>& lines(const std::string& file);

 private:
  struct File {
    std::optional<std::string> text;
    std::vector<std::string_view> lines;  // of the text, once they are asked for
  };
  File& file_of(const std::string& file);

  Read read_;
  std::map<std::string, File> files_;
};

}  // namespace sonde
