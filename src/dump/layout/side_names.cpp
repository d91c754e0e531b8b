#include "dump/layout/side_names.h"

#include <fmt/format.h>

namespace sonde {
namespace {

constexpr std::string_view kHistory = "ms_global_execution_order_graph_";
constexpr std::string_view kGraphSteps = "steps_graph_";
constexpr std::string_view kGraphsOfStep = "step_";

}  // namespace

std::filesystem::path own_directory_in(const std::filesystem::path& metadata) { return metadata / "sonde"; }
std::filesystem::path journal_in(const std::filesystem::path& metadata) {
  return own_directory_in(metadata) / "journal";
}

std::filesystem::path host_directory_in(const std::filesystem::path& dump) {
  return dump / kMetadataDirectory / "mindspore";
}

std::string order_name(std::uint32_t graph) { return fmt::format("ms_execution_order_graph_{}.csv", graph); }

std::string history_name(std::uint32_t graph) { return fmt::format("{}{}.csv", kHistory, graph); }
bool is_history_name(std::string_view name) { return name.starts_with(kHistory); }

std::string graph_name(std::uint32_t graph, std::string_view extension) {
  return fmt::format("ms_output_trace_code_graph_{}{}", graph, extension);
}

std::string graph_steps_name(std::uint32_t graph) { return fmt::format("{}{}.csv", kGraphSteps, graph); }
bool is_graph_steps_name(std::string_view name) { return name.starts_with(kGraphSteps); }

std::string graphs_of_step_name(std::string_view step) { return fmt::format("{}{}", kGraphsOfStep, step); }
bool is_graphs_of_step_name(std::string_view name) { return name.starts_with(kGraphsOfStep); }

}  // namespace sonde
