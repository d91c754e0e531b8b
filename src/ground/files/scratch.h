// A temporary directory that is removed at the end of the verb.
#pragma once

#include <filesystem>

namespace sonde {

class Scratch {
 public:
  Scratch();  // in TMPDIR; in /tmp if there is none, or if others can exchange it
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  const std::filesystem::path& path() const { return path_; }  // empty: it could not be made

 private:
  std::filesystem::path path_;
};

}  // namespace sonde
