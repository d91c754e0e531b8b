// Files that are part of the program; cmake/linked_files.cmake writes their list.
#pragma once

#include <span>
#include <string_view>

namespace sonde::server {

struct LinkedFile {
  std::string_view path;  // "index.html"
  std::string_view text;
};
std::span<const LinkedFile> linked_files();

}  // namespace sonde::server
