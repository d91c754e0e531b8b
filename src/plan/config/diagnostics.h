// Diagnostics: collects all errors and warnings of one configuration file, up to a limit.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan/config/plan.h"

namespace sonde {

class Diagnostics {
 public:
  // A hostile file could hold a million unknown keys; nobody reads that many lines.
  static constexpr std::size_t kMost = 200;

  // For a configuration that a run used, as kept in a dump. It is read to its end despite errors: then has_errors()
  // is false. It is not checked against this machine: its paths and variables may be another machine's.
  static Diagnostics of_a_record();
  bool is_of_a_record() const { return is_of_a_record_; }

  void error(std::size_t line, std::string key, std::string message);
  void warning(std::size_t line, std::string key, std::string message);
  bool has_errors() const { return has_errors_ && !is_of_a_record_; }

  // All of them by line, those about the whole file first; leaves the object empty. If more than
  // kMost errors or kMost warnings were reported, the last one gives the number left out.
  std::vector<Diagnostic> take();

 private:
  void add(bool is_error, std::size_t line, std::string key, std::string message);

  std::vector<Diagnostic> kept_;
  std::size_t errors_ = 0;
  std::size_t warnings_ = 0;
  bool has_errors_ = false;
  bool is_of_a_record_ = false;
};

}  // namespace sonde
