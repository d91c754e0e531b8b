// Finds the tensor for `sonde show`, and the ops that write and read it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "dump.h"

namespace sonde {

struct FoundTensor {
  const SelectedStep* step = nullptr;
  CatalogOp* op = nullptr;
  CatalogTensor* tensor = nullptr;  // null: nothing was found
};

// `text`: the full name of an op or its end, or a parameter's name; with `:output.0` for one slot,
// else the first output that was recorded. Of several steps the first that recorded it. Errors in the text go to
// `wrong`.
FoundTensor find_by_name(std::vector<SelectedStep>& steps, const std::string& text, std::string& wrong);

// What find_by_name, or find_by_file where `is_file`, and flow_of look at.
CatalogQuery query_of_tensor(const DumpOptions& options, const std::string& text, bool is_file);

// `text`: a path of a .npy file, from here or from the rank's directory, or its name alone.
FoundTensor find_by_file(std::vector<SelectedStep>& steps, const std::string& text);

struct Flow {
  std::string written_by;            // "{full name}:output.0"; empty: unknown
  std::vector<std::string> read_by;  // "{full name}:input.0"
};
// Within the tensor's run.
Flow flow_of(const std::vector<SelectedStep>& steps, const FoundTensor& found);

// "{full name}:output.0"
std::string name_of(const CatalogOp& op, const CatalogTensor& tensor);

}  // namespace sonde
