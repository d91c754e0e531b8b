// The files that `sonde show` writes: pictures of a tensor, its values as text, its trend through the steps.
#pragma once

#include <string>
#include <vector>

#include "contract/commands.h"
#include "face/report/json.h"
#include "read/catalog/find_tensor.h"
#include "read/measure/trend.h"
#include "sonde/tensor.h"

namespace sonde {

// Files of the tensor's values were asked for.
bool any_of_values(const ShowCommand& files);
// stdout contains only the values.
bool text_alone(const ShowCommand& files);
// The error in the options themselves; empty if there is none.
std::string complaint_of(const ShowCommand& files);

// Writes picture and text of one tensor. `title` is for people, `name` is the first line of the text. Returns the exit
// status; errors are on stderr.
int write_files(const ShowCommand& files, const TensorView& view, const std::string& title, const std::string& name);

// The trend of the found tensor over all chosen steps; a picture of it, if one was asked for.
std::vector<TrendStep> drawn_trend(const ShowCommand& files, const std::vector<SelectedStep>& steps,
                                   const FoundTensor& found, int& status);
// These statistics of it, as a table and for the JSON.
std::string trend_table(const std::vector<std::string>& names, const std::vector<TrendStep>& trend);
std::vector<ShownStep> shown_trend(const std::vector<std::string>& names, const std::vector<TrendStep>& trend);

}  // namespace sonde
