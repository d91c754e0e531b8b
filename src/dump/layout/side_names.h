// Names of the files beside the steps of a rank: MindSpore's, and our own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace sonde {

inline constexpr std::string_view kMetadataDirectory = ".dump_metadata";
inline constexpr std::string_view kGraphsDirectory = "graphs";
inline constexpr std::string_view kOrderDirectory = "execution_order";
inline constexpr std::string_view kConstantsDirectory = "constants";
inline constexpr std::string_view kSourcesDirectory = "sources";  // in `graphs`: copies of the program

// Inside a directory .dump_metadata: our own directory, and the journal in it.
std::filesystem::path own_directory_in(const std::filesystem::path& metadata);
std::filesystem::path journal_in(const std::filesystem::path& metadata);

// MindSpore puts its own rank_N here, in a dump whose layout has no such directories.
std::filesystem::path host_directory_in(const std::filesystem::path& dump);

// In `execution_order`.
std::string order_name(std::uint32_t graph);    // ms_execution_order_graph_0.csv
std::string history_name(std::uint32_t graph);  // ms_global_execution_order_graph_0.csv
bool is_history_name(std::string_view name);
// In `graphs`.
std::string graph_name(std::uint32_t graph, std::string_view extension);  // ms_output_trace_code_graph_0{extension}
std::string graph_steps_name(std::uint32_t graph);  // steps_graph_0.csv: the files that show each step
bool is_graph_steps_name(std::string_view name);
std::string graphs_of_step_name(std::string_view step);  // step_3: of a step that differs from the graph's first
bool is_graphs_of_step_name(std::string_view name);

}  // namespace sonde
