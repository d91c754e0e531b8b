#include "read/catalog/step_graph.h"

#include <algorithm>
#include <optional>
#include <system_error>
#include <utility>

#include "dump/graph/build.h"
#include "dump/graph/host_graph.h"
#include "dump/layout/side_names.h"
#include "ground/files/mapped_file.h"
#include "read/catalog/data_flow.h"
#include "read/catalog/select.h"

namespace sonde {
namespace {

constexpr std::uintmax_t kLongestSource = 16 << 20;  // bytes
constexpr std::uint32_t kMostLines = 1 << 22;        // of a source; a damaged dump may contain any number

GraphOp op_of(const CatalogOp& from, const DataFlow& flow) {
  GraphOp op;
  op.sequence = from.sequence;
  op.op_type = from.op_type;
  op.op_name = from.op_name;
  op.attributes = from.attributes;
  op.trace = from.trace;
  for (const CatalogTensor& tensor : from.tensors) {
    const std::optional<DataFlow::Maker> maker = flow.maker(tensor);
    op.tensors.push_back({tensor, maker ? std::optional(maker->number) : std::nullopt, tensor.parameter});
  }
  return op;
}

void connect(StepGraph& out) {
  out.incoming.resize(out.graph.nodes.size());
  out.outgoing.resize(out.graph.nodes.size());
  for (std::uint32_t to = 0; to < out.graph.nodes.size(); ++to) {
    const std::vector<Operand>& inputs = out.graph.nodes[to].inputs;
    for (std::uint32_t slot = 0; slot < inputs.size(); ++slot) {
      const Operand& input = inputs[slot];
      const bool is_parameter = input.kind == Operand::Kind::parameter;
      if (!is_parameter && input.kind != Operand::Kind::node) continue;
      const auto edge = static_cast<std::uint32_t>(out.edges.size());
      out.edges.push_back({input.index, input.slot, to, slot, is_parameter});
      out.incoming[to].push_back(edge);
      if (!is_parameter) out.outgoing[input.index].push_back(edge);
    }
  }
}

std::optional<std::string> read_file(const std::filesystem::path& path) {
  Result<std::string> text = read_whole_file(path, kLongestSource);
  return text ? std::optional(std::move(*text)) : std::nullopt;
}

// Lines quoted in the host's graph files.
HostLines lines_of(const CatalogRank& rank) {
  HostLines lines;
  for (const std::shared_ptr<const HostGraph>& graph : rank.host_graphs) {
    for (const auto& [file, of_file] : graph->lines) lines[file].insert(of_file.begin(), of_file.end());
  }
  return lines;
}

bool agrees(const std::string& text, const std::map<std::uint32_t, std::string>& lines) {
  SourceTexts source([&](const std::string&) { return text; });
  return std::ranges::all_of(lines, [&](const auto& line) { return source.line("", line.first) == line.second; });
}

// A file consisting only of these lines.
std::string text_of(const std::map<std::uint32_t, std::string>& lines) {
  std::string text;
  std::uint32_t at = 1;
  for (const auto& [number, line] : lines) {
    if (number < at || number > kMostLines) continue;
    text.append(number - at, '\n').append(line);
    at = number;
  }
  return text;
}

}  // namespace

StepGraph graph_of(const CatalogRank& rank, const CatalogStep& step) {
  StepGraph out;
  DataFlow flow(rank);  // numbers operators as the graph does
  GraphBuilder builder(step.id.graph);
  for (const CatalogOp& op : step.ops) {
    if (op.is_parameter) continue;
    builder.add(op_of(op, flow));
    flow.add(op);
    out.ops.push_back(&op);
  }
  out.graph = builder.finish();
  connect(out);
  return out;
}

std::vector<std::uint32_t> neighbourhood(const StepGraph& graph, std::vector<std::uint32_t> nodes,
                                         std::uint32_t distance) {
  std::vector<bool> taken(graph.graph.nodes.size());
  for (const std::uint32_t node : nodes) taken[node] = true;
  std::vector<std::uint32_t> border = nodes;
  for (std::uint32_t i = 0; i < distance && !border.empty(); ++i) {
    std::vector<std::uint32_t> next;
    const auto take = [&](std::uint32_t node) {
      if (taken[node]) return;
      taken[node] = true;
      next.push_back(node);
    };
    for (const std::uint32_t node : border) {
      for (const std::uint32_t edge : graph.incoming[node]) {
        if (!graph.edges[edge].from_parameter) take(graph.edges[edge].from);
      }
      for (const std::uint32_t edge : graph.outgoing[node]) take(graph.edges[edge].to);
    }
    border = std::move(next);
  }
  nodes.clear();
  for (std::uint32_t node = 0; node < taken.size(); ++node) {
    if (taken[node]) nodes.push_back(node);
  }
  return nodes;
}

std::vector<std::uint32_t> nodes_meant(const StepGraph& graph, const std::string& text) {
  std::vector<std::uint32_t> nodes;
  for (std::uint32_t node = 0; node < graph.graph.nodes.size(); ++node) {
    const std::string& name = graph.graph.nodes[node].op_name;
    if (name == text) return {node};
    if (name.ends_with("/" + text) || selects(text, name, graph.graph.nodes[node].op_type)) nodes.push_back(node);
  }
  return nodes;
}

SourceTexts sources_of(const CatalogRank& rank) {
  std::error_code ignored;
  const bool apart = std::filesystem::exists(rank.metadata / "graphs", ignored);  // as for CANN's trees
  const std::filesystem::path kept = (apart ? rank.metadata : rank.directory) / kGraphsDirectory / kSourcesDirectory;
  return SourceTexts([kept, lines = lines_of(rank)](const std::string& file) -> std::optional<std::string> {
    // Names come from the dump, which is untrusted: stay inside its directory.
    const std::filesystem::path inside = std::filesystem::path(file).lexically_normal().relative_path();
    if (!inside.empty() && *inside.begin() != "..") {
      if (std::optional<std::string> copy = read_file(kept / inside)) return copy;
    }
    const auto known = lines.find(file);
    if (known == lines.end()) return std::nullopt;
    // The file itself is used only if it still matches the dump's data about it, so that no other file is ever shown.
    if (std::optional<std::string> now = read_file(file); now && agrees(*now, known->second)) return now;
    return text_of(known->second);
  });
}

}  // namespace sonde
