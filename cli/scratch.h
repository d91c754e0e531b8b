// A directory of ours that is gone when the verb is over.
#pragma once

#include <filesystem>

namespace sonde {

class Scratch {
 public:
  Scratch();  // in TMPDIR, else in /tmp
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }  // empty: none could be made

 private:
  std::filesystem::path path_;
};

}  // namespace sonde
