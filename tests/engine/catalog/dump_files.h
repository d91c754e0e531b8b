// Directories and files of dumps, made for a test and removed after it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

// An empty directory that lives as long as this.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  // Also makes the directories above it.
  void write(const std::filesystem::path& file, std::string_view bytes) const;

 private:
  std::filesystem::path path_;
};

// A version 1 npy file; `data` unchanged.
std::string npy(std::string_view descr, std::string_view shape, std::string_view data,
                std::string_view fortran_order = "False");
std::string bytes_of(const std::vector<float>& values);

// The catalog of a dump; an empty one, and a failure of the test, if there is none.
Catalog opened(const std::filesystem::path& path);
std::vector<std::string> names_of(const CatalogStep& step);  // full names, in order

}  // namespace sonde
