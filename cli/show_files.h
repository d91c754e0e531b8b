// The files that `sonde show` writes: pictures of a tensor, its values as text, its trend through the steps.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "face/report/json.h"
#include "read/catalog/find_tensor.h"
#include "sonde/tensor.h"

namespace sonde {

struct ShowFiles {
  std::string picture;        // a .png; empty: none
  std::string plot;           // "maps" or "histogram"; empty: chosen by the tensor
  std::string scale = "all";  // of maps: "all" or "map"
  std::size_t maps = 64, bins = 64;
  std::string text;                // a file for the values, `-` for stdout; empty: none
  std::vector<std::string> trend;  // names of statistics; empty: no trend

  bool any_of_values() const { return !text.empty() || (!picture.empty() && trend.empty()); }
  bool text_alone() const { return text == "-"; }  // stdout contains only the values
};

void add_file_options(CLI::App& verb, ShowFiles& files);
// The error in the options themselves; empty if there is none.
std::string complaint_of(const ShowFiles& files);

// Writes picture and text of one tensor. `title` is for people, `name` is the first line of the text. Returns the exit
// status; errors are on stderr.
int write_files(const ShowFiles& files, const TensorView& view, const std::string& title, const std::string& name);

// The trend of the found tensor over all chosen steps: a table, or `trend` of the JSON; and a picture.
std::string trend_text(const ShowFiles& files, const std::vector<SelectedStep>& steps, const FoundTensor& found,
                       Json* json, int& status);

}  // namespace sonde
