// CustomAlgorithms: the user's own `algorithm/alg_<Name>.py`, run by a python3 of their own.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "guests/msaccucmp/outcome.h"
#include "sonde/tensor.h"

namespace sonde::msaccucmp {

// The names of the algorithms in `directory`/algorithm. Nothing is run.
std::vector<std::string> custom_algorithms(const std::string& directory);

// One python3 process for a whole comparison; calls from several threads wait for each other.
class CustomAlgorithms {
 public:
  // `options`: the text of -a.
  static Outcome<std::unique_ptr<CustomAlgorithms>> start(const std::string& directory, const std::string& options);
  ~CustomAlgorithms();

  struct Answer {
    std::string value, message;
  };
  Answer compute(const std::string& name, const TensorView& left, const TensorView& right, bool is_scalar,
                 std::string_view left_path, std::string_view right_path);

 private:
  CustomAlgorithms();
  struct Process;
  std::unique_ptr<Process> process_;
};

}  // namespace sonde::msaccucmp
