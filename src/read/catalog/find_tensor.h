// Finds the tensor that a user names, and the ops that write and read it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "read/catalog/select_steps.h"

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
// `text` without its slot.
std::string op_part(const std::string& text);
// Whether `name` is the full name of the op, or its end.
bool means_op(std::string_view name, std::string_view op_name);

// `text`: a path of a .npy file, from here or from the rank's directory, or its name alone.
FoundTensor find_by_file(std::vector<SelectedStep>& steps, const std::string& text);

struct Flow {
  std::string written_by;            // "{full name}:output.0"; empty: unknown
  std::vector<std::string> read_by;  // "{full name}:input.0"
};
// Within the tensor's run.
Flow flow_of(const std::vector<SelectedStep>& steps, const FoundTensor& found);

}  // namespace sonde
