// The places of the files of a dump: the directories of steps from the table (trees.h), and the files beside them.
#include "dump/layout/layout.h"

#include <fmt/format.h>

#include <ctime>

namespace sonde {
namespace {

// YYYYMMDDhhmmss, local time, as in CANN's names of a run's directory.
std::string time_text(std::time_t now) {
  std::tm parts{};
  ::localtime_r(&now, &parts);
  char text[32] = {};
  const std::size_t length = std::strftime(text, sizeof text, "%Y%m%d%H%M%S", &parts);
  return {text, length};
}

TensorForm form_of(const Plan& plan) {
  switch (plan.sonde.layout) {
    case LayoutKind::mindspore_1_2:
      return TensorForm::raw;
    case LayoutKind::mindspore_1_2_async:
    case LayoutKind::acl:
    case LayoutKind::torchair:
      return TensorForm::container;
    default:
      return plan.file_format == FileFormat::bin ? TensorForm::container : TensorForm::npy;
  }
}

}  // namespace

Layout Layout::make(const Plan& plan, const RunInfo& run) {
  Layout layout;
  layout.kind_ = plan.sonde.layout;
  layout.release_ = plan.sonde.version;
  layout.form_ = form_of(plan);
  layout.root_ = plan.path;
  layout.values_.net = plan.net_name;
  layout.values_.time = time_text(run.started != 0 ? run.started : std::time(nullptr));
  layout.values_.rank = run.rank;
  layout.values_.world_size = run.world_size;
  layout.values_.device = layout.device_ = run.device;
  layout.is_asynchronous_2_0_ =
      layout.kind_ == LayoutKind::mindspore_2_0 && layout.release_ == Release::v2_0 && !plan.synchronous();
  layout.exceptions_ = layout.kind_ == LayoutKind::acl && plan.acl.is_exception_scene();
  layout.place();
  return layout;
}

void Layout::place() {
  const std::string rank = path_of(tree_of(kind_, exceptions_ ? TreeCase::exceptions : TreeCase::usual).rank, values_);
  rank_directory_ = rank.empty() ? root_ : root_ / rank;
  metadata_ = rank_directory_ / kMetadataDirectory;
  if (begins_with_step()) metadata_ /= device_name(device_);
  // CANN writes no graphs: ours must not disturb programs that walk its trees.
  sides_ = is_of_cann() ? metadata_ : rank_directory_;
}

// For `acl`. Empty for a single operator.
std::string Layout::model_of(const NamedRecord& record) const {
  // A parameter belongs to the model that reads it first.
  const OpName* op = record.reader != nullptr ? record.reader : record.op;
  return op != nullptr ? sanitised(root_module(op->op_name)) : std::string();
}

std::string Layout::directory_of(const NamedRecord& record) const {
  TreeValues values = values_;
  values.graph = record.step.graph;
  values.step = record.step.number;
  TreeCase which = TreeCase::usual;
  if (exceptions_) {
    which = TreeCase::exceptions;
  } else if (kind_ == LayoutKind::acl) {
    values.model = model_of(record);
    if (values.model.empty()) which = TreeCase::no_model;
  } else if (kind_ == LayoutKind::mindspore_1_2 && record.step.graph != 0) {
    which = TreeCase::later_graphs;
  } else if (record.in_constants) {
    which = TreeCase::constants;
  }
  const std::string path = path_of(tree_of(kind_, which).step, values);
  return path.empty() ? path : path + "/";
}

std::filesystem::path Layout::execution_order_file(std::uint32_t graph) const {
  return execution_order_directory() / order_name(graph);
}

std::filesystem::path Layout::history_file(std::uint32_t graph) const {
  return execution_order_directory() / history_name(graph);
}

Layout::GraphPaths Layout::graph_files(StepId step, bool first) const {
  const std::filesystem::path directory =
      first ? graphs_directory() : graphs_directory() / graphs_of_step_name(std::to_string(step.number));
  const std::filesystem::path order = execution_order_file(step.graph);
  return {first ? order : directory / order.filename(), directory / graph_name(step.graph, ".ir"),
          directory / graph_name(step.graph, ".pb")};
}

std::filesystem::path Layout::graph_steps_file(std::uint32_t graph) const {
  return graphs_directory() / graph_steps_name(graph);
}

std::filesystem::path Layout::old_config_copy() const {
  return release_ == Release::v1_2 ? root_ / ".metadata" / "data_dump.json" : std::filesystem::path();
}

std::filesystem::path Layout::rank_table_copy() const {
  const bool had_one = has_rank_tree() && release_ <= Release::v2_3;
  return had_one ? metadata_ / "hccl.json" : std::filesystem::path();
}

std::filesystem::path Layout::acl_config() const {
  return begins_with_step() ? root_ / fmt::format("acl_dump_{}.json", device_) : std::filesystem::path();
}

}  // namespace sonde
