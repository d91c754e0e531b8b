// One line of verdicts.txt: a configuration, as edits of a good one, and how each program reads it.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "plan/config/plan.h"

namespace sonde::test {

// The good configuration with edits applied, one key per line:
//   "c.dump_mode=1"   sets common_dump_settings.dump_mode to the JSON text after '='; "e." means
//                     e2e_dump_settings, "s." sonde_settings; a key without a dot is at the top
//   "-c.dump_mode"    removes the key; "-e" the whole object
//   "env NAME=VALUE"  is left to the caller (environment_of)
struct Edited {
  std::string json;
  std::map<std::string, std::size_t> lines;  // "common_dump_settings.dump_mode" -> line of the key
};
Edited edited(const std::vector<std::string>& edits);
std::map<std::string, std::string> environment_of(const std::vector<std::string>& edits);

// Splits at " ;; ".
std::vector<std::string> split_edits(std::string_view text);

struct VerdictCase {
  bool mindspore_accepts = false;
  bool sonde_accepts = false;
  int mindspore_files = -1;  // number of tensors of two steps of relu(x + y); -1 if not counted
  int sonde_files = -1;
  std::vector<std::string> edits;
  std::string text;  // the line
};
std::vector<VerdictCase> read_verdicts(const std::string& file);

// The number of tensors that the plan would keep of two steps of that network: Add (x, y), ReLU, parameters x and y.
int files_of(const Plan& plan);

// Reads the edited configuration with the environment of the edits; all other variables for it are unset.
PlanResult parse_edits(const std::vector<std::string>& edits);

}  // namespace sonde::test
