// Real files of MindSpore: tests/engine/graph/mindspore/README.md.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace sonde::test {

inline std::string mindspore_file(const std::string& name) {
  const std::filesystem::path path = std::filesystem::path(SONDE_MINDSPORE_FILES) / name;
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file) << path;
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

}  // namespace sonde::test
