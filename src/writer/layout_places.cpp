// Where the files of a dump lie, layout by layout: docs/format.md, "Trees".
#include <fmt/format.h>

#include <ctime>

#include "writer/layout.h"

namespace sonde {
namespace {

// YYYYMMDDhhmmss, local time, as CANN calls the directory of a run.
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
  layout.net_name_ = plan.net_name;
  layout.time_ = time_text(run.started != 0 ? run.started : std::time(nullptr));
  layout.device_ = run.device;
  layout.is_asynchronous_2_0_ =
      layout.kind_ == LayoutKind::mindspore_2_0 && layout.release_ == Release::v2_0 && !plan.synchronous();
  layout.exceptions_ = layout.kind_ == LayoutKind::acl && plan.acl.is_exception_scene();
  layout.place(run);
  return layout;
}

void Layout::place(const RunInfo& run) {
  const std::string device = std::to_string(device_);
  const std::string named_device = "device_" + device;
  switch (kind_) {
    case LayoutKind::mindspore_1_2:
      rank_directory_ = root_ / net_name_ / named_device;
      break;
    case LayoutKind::mindspore_1_2_async:
      rank_directory_ = root_ / named_device;
      break;
    case LayoutKind::ge:
    case LayoutKind::acl:
      rank_directory_ = exceptions_ ? root_ / "extra-info" / "data-dump" / device : root_ / time_ / device;
      break;
    case LayoutKind::torchair:
      rank_directory_ = root_ / fmt::format("worldsize{}_global_rank{}", run.world_size, run.rank) / time_ / device;
      break;
    case LayoutKind::o0:
    case LayoutKind::o2:  // the step comes first: all devices share the directory, and only their metadata are apart
      rank_directory_ = root_;
      break;
    default:
      rank_directory_ = root_ / fmt::format("rank_{}", run.rank);
      break;
  }
  metadata_ = rank_directory_ / ".dump_metadata";
  if (begins_with_step()) metadata_ /= named_device;
  // CANN writes no graphs: ours stay out of the way of what walks its trees.
  sides_ = is_of_cann() ? metadata_ : rank_directory_;
}

// The directories of a model and its number. Empty in `acl`: a single operator.
std::string Layout::model_of(const NamedRecord& record) const {
  const std::uint32_t graph = record.step.graph;
  if (kind_ == LayoutKind::torchair) return fmt::format("graph_{0}/{0}/", graph + 1);
  if (kind_ != LayoutKind::acl) return fmt::format("{}/{}/", net_name_, graph);
  // A parameter belongs to the model that reads it first.
  const OpName* op = record.reader != nullptr ? record.reader : record.op;
  const std::string_view root = op != nullptr ? root_module(op->full_name) : std::string_view();
  return root.empty() ? std::string() : fmt::format("{}/{}/", sanitised(root), graph);
}

std::string Layout::directory_of(const NamedRecord& record) const {
  const StepId step = record.step;
  switch (kind_) {
    case LayoutKind::mindspore_1_2:
      // That version counts the steps of all graphs together; we do not, so that evaluation has a place of its own.
      return step.graph == 0 ? fmt::format("iteration_{}/", step.iteration)
                             : fmt::format("graph_{}/iteration_{}/", step.graph, step.iteration);
    case LayoutKind::mindspore_1_2_async:
      return fmt::format("{}_graph_{}/{}/{}/", net_name_, step.graph, step.graph, step.iteration);
    case LayoutKind::o0:
      return fmt::format("{}/{}/{}/{}/", step.iteration, time_, device_, step.graph);
    case LayoutKind::o2:
      return fmt::format("{}/{}/{}/{}0/", step.iteration, time_, device_, model_of(record));
    case LayoutKind::acl: {
      if (exceptions_) return "";
      const std::string model = model_of(record);
      return model.empty() ? model : fmt::format("{}{}/", model, step.iteration);
    }
    default:
      if (record.in_constants) return fmt::format("{}/{}/constants/", net_name_, step.graph);
      return fmt::format("{}{}/", model_of(record), step.iteration);
  }
}

std::filesystem::path Layout::execution_order_file(std::uint32_t graph) const {
  return execution_order_directory() / fmt::format("ms_execution_order_graph_{}.csv", graph);
}

std::filesystem::path Layout::history_file(std::uint32_t graph) const {
  return execution_order_directory() / fmt::format("ms_global_execution_order_graph_{}.csv", graph);
}

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
