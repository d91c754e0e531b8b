#include "store/layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace sonde {
namespace {

template <typename Number>
bool parse_number(std::string_view text, Number& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && !text.empty() && text.front() != '-';
}

bool parse_side(std::string_view text, bool& is_input) {
  is_input = text == "input";
  return is_input || text == "output";
}

// Takes the part after the last `separator` off `rest`; all of it when there is none.
std::string_view take_last(std::string_view& rest, char separator) {
  const std::size_t at = rest.rfind(separator);
  const std::string_view part = at == std::string_view::npos ? rest : rest.substr(at + 1);
  rest = at == std::string_view::npos ? std::string_view() : rest.substr(0, at);
  return part;
}

// "{op_type}.{op_name}.{task}.{stream}.{time}.{side}.{slot}.{format}[.{dtype}]"; op_name may hold dots (2.0).
bool parse_npy_name(std::string_view rest, TensorFileName& out) {
  const std::string_view last = take_last(rest, '.');
  std::string_view before = take_last(rest, '.');
  if (parse_number(before, out.slot)) {
    out.format = last;
  } else {
    out.dtype = last;
    out.format = before;
    before = take_last(rest, '.');
    if (!parse_number(before, out.slot)) return false;
  }
  if (!parse_side(take_last(rest, '.'), out.is_input)) return false;
  if (!parse_number(take_last(rest, '.'), out.timestamp_us)) return false;
  if (!parse_number(take_last(rest, '.'), out.stream_id)) return false;
  if (!parse_number(take_last(rest, '.'), out.task_id)) return false;
  const std::size_t dot = rest.find('.');
  if (dot == std::string_view::npos || dot == 0 || out.format.empty()) return false;
  out.op_type = rest.substr(0, dot);
  out.op_name = rest.substr(dot + 1);
  return !out.op_name.empty();
}

// "{name}_{side}_{slot}_shape_{d0}_{d1}…_{Type}_{format}", 1.2; a scalar has `shape_0`.
bool parse_bin_name(std::string_view rest, TensorFileName& out) {
  constexpr std::string_view kShape = "_shape_";
  const std::size_t at = rest.rfind(kShape);
  if (at == std::string_view::npos) return false;
  std::string_view tail = rest.substr(at + kShape.size());
  rest = rest.substr(0, at);
  // A format may hold `_` (FRACTAL_Z), so the sizes are read from the left.
  std::int64_t size = 0;
  while (true) {
    const std::size_t end = tail.find('_');
    if (end == std::string_view::npos || !parse_number(tail.substr(0, end), size)) break;
    out.shape.push_back(size);
    tail = tail.substr(end + 1);
  }
  const std::size_t end = tail.find('_');
  if (out.shape.empty() || end == std::string_view::npos) return false;
  if (out.shape.size() == 1 && out.shape[0] == 0) out.shape.clear();
  out.dtype = tail.substr(0, end);
  out.format = tail.substr(end + 1);
  if (!parse_number(take_last(rest, '_'), out.slot)) return false;
  if (!parse_side(take_last(rest, '_'), out.is_input)) return false;
  out.op_name = rest;
  const std::size_t scope = rest.rfind("--");
  const std::string_view last = scope == std::string_view::npos ? rest : rest.substr(scope + 2);
  out.op_type = last.substr(0, last.rfind("-op"));
  return !out.op_name.empty();
}

}  // namespace

std::string sanitised(std::string_view name) {
  std::string out(name);
  for (char& c : out) {
    if (c == '/' || c == '\\' || c == '.' || c == ' ') c = '_';
  }
  return out;
}

Result<Layout> Layout::make(const Plan& plan, const RunInfo& run) {
  const LayoutKind kind = plan.sonde.layout;
  if (kind < LayoutKind::mindspore_2_0 || kind > LayoutKind::mindspore_2_7) {
    return Error{ErrorCode::unsupported,
                 fmt::format("cannot write layout '{}': this build writes mindspore-2.0, 2.3, 2.5 "
                             "and 2.7",
                             info(kind).name)};
  }
  Layout layout;
  layout.kind_ = kind;
  layout.release_ = plan.sonde.version;
  layout.root_ = plan.path;
  layout.net_name_ = plan.net_name;
  layout.rank_ = run.rank;
  return layout;
}

// The name of an op up to the last `/`, that one included.
std::string Layout::name_prefix(const Site& site) const {
  const std::string scope = site.scope.empty() ? std::string() : site.scope + "/";
  const std::string_view grad = release_ < Release::v2_7 ? "grad" : "Grad_";
  switch (site.phase) {
    case Phase::backward:
      if (site.forward_op_type.empty()) return "Gradients/Default/";
      return fmt::format("Gradients/Default/{}{}{}/", scope, grad, site.forward_op_type);
    case Phase::recompute:
      return "Default/recompute/" + scope;
    default:
      return "Default/" + scope;
  }
}

std::string Layout::number_key(const Site& site) const { return name_prefix(site) + site.op_type; }

std::string Layout::full_name(const Site& site, std::uint32_t number) const {
  return fmt::format("{}{}-op{}", name_prefix(site), site.op_type, number);
}

std::filesystem::path Layout::rank_directory() const { return root_ / fmt::format("rank_{}", rank_); }

std::filesystem::path Layout::step_directory(StepId step) const {
  return rank_directory() / net_name_ / std::to_string(step.graph) / std::to_string(step.iteration);
}

std::filesystem::path Layout::constants_directory(std::uint32_t graph) const {
  return rank_directory() / net_name_ / std::to_string(graph) / "constants";
}

std::filesystem::path Layout::directory_of(StepId step, bool constants) const {
  return constants ? constants_directory(step.graph) : step_directory(step);
}

std::filesystem::path Layout::execution_order_directory() const { return rank_directory() / "execution_order"; }

std::filesystem::path Layout::execution_order_file(std::uint32_t graph) const {
  return execution_order_directory() / fmt::format("ms_execution_order_graph_{}.csv", graph);
}

std::filesystem::path Layout::history_file(std::uint32_t graph) const {
  return execution_order_directory() / fmt::format("ms_global_execution_order_graph_{}.csv", graph);
}

std::filesystem::path Layout::graphs_directory() const { return rank_directory() / "graphs"; }

Layout::GraphPaths Layout::graph_files(StepId step, bool first) const {
  const std::string own = fmt::format("step_{}", step.iteration);
  const std::filesystem::path directory = first ? graphs_directory() : graphs_directory() / own;
  const std::string name = fmt::format("ms_output_trace_code_graph_{}", step.graph);
  const std::filesystem::path order = execution_order_file(step.graph);
  return {first ? order : directory / order.filename(), directory / (name + ".ir"), directory / (name + ".pb")};
}

std::filesystem::path Layout::graph_steps_file(std::uint32_t graph) const {
  return graphs_directory() / fmt::format("steps_graph_{}.csv", graph);
}

std::filesystem::path Layout::sources_directory() const { return graphs_directory() / "sources"; }

std::filesystem::path Layout::metadata_directory() const { return rank_directory() / ".dump_metadata"; }

std::filesystem::path Layout::own_directory() const { return metadata_directory() / "sonde"; }

std::filesystem::path Layout::journal_file() const { return own_directory() / "journal"; }

std::string Layout::name_in_files(const OpName& op) const {
  if (release_ > Release::v2_0) return sanitised(op.full_name);
  // A parameter has no scope to drop: two of them may differ before a `/` only.
  std::string name = op.op_type == "Parameter" ? op.full_name : op.full_name.substr(op.full_name.rfind('/') + 1);
  std::ranges::replace(name, '/', '_');
  return name;
}

std::string Layout::tensor_file_name(const OpName& op, const TensorRecord& tensor) const {
  std::string name = fmt::format("{}.{}.0.0.{}.{}.{}.DefaultFormat", sanitised(op.op_type), name_in_files(op),
                                 tensor.timestamp_us, tensor.is_input ? "input" : "output", tensor.slot);
  if (release_ == Release::v2_7) name.append(".").append(info(tensor.dtype).name);
  return name.append(".npy");
}

bool parse_tensor_file_name(std::string_view name, TensorFileName& out) {
  out = TensorFileName();
  if (name.ends_with(".npy")) return parse_npy_name(name.substr(0, name.size() - 4), out);
  if (name.ends_with(".bin")) return parse_bin_name(name.substr(0, name.size() - 4), out);
  return false;
}

}  // namespace sonde
