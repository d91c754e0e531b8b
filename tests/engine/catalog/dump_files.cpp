#include "dump_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <fstream>

namespace sonde {

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "sonde-test-XXXXXX").string();
  path_ = mkdtemp(pattern.data());
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void TemporaryDirectory::write(const std::filesystem::path& file, std::string_view bytes) const {
  std::filesystem::create_directories((path_ / file).parent_path());
  std::ofstream(path_ / file, std::ios::binary) << bytes;
}

std::string npy(std::string_view descr, std::string_view shape, std::string_view data, std::string_view fortran_order) {
  std::string text = "{'descr': '" + std::string(descr) + "', 'fortran_order': " + std::string(fortran_order) +
                     ", 'shape': " + std::string(shape) + ", }";
  text.append(118 - 1 - text.size() % 118, ' ').push_back('\n');
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(text.size()));
  file.push_back(static_cast<char>(text.size() >> 8));
  return file + text + std::string(data);
}

std::string bytes_of(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

Catalog opened(const std::filesystem::path& path) {
  Result<Catalog> catalog = open_catalog(path);
  EXPECT_TRUE(catalog) << (catalog ? "" : catalog.error().message);
  return catalog ? std::move(*catalog) : Catalog();
}

std::vector<std::string> names_of(const CatalogStep& step) {
  std::vector<std::string> names;
  for (const CatalogOp& op : step.ops) names.emplace_back(op.op_name);
  return names;
}

}  // namespace sonde
