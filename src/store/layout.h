// Layout: how ops are named and numbered, and how the directories and files of a dump are called.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/plan.h"
#include "store/record.h"

namespace sonde {

class Layout {
 public:
  // Fails with `unsupported` for a layout this build does not write.
  static Result<Layout> make(const Plan& plan, const RunInfo& run);
  LayoutKind kind() const { return kind_; }
  Release release() const { return release_; }

  // Ops with the same key, type and scope, share one counter within a step.
  std::string number_key(const Site& site) const;
  // 2.0: the number of an op is that of its node among all nodes of the run, whatever their types, and not its place
  // among the ops with its key. Names without scope then stay apart.
  bool numbers_throughout() const { return release_ <= Release::v2_0; }
  // forward   Default/{scope}/{type}-op{n}
  // recompute Default/recompute/{scope}/{type}-op{n}
  // backward  Gradients/Default/{scope}/Grad_{forward type}/{type}-op{n}; before 2.7 `grad{forward type}`
  //           Gradients/Default/{type}-op{n}, the forward op unknown
  // optimizer Default/{scope}/{type}-op{n}, scope `optimizer-SGD`
  std::string full_name(const Site& site, std::uint32_t number) const;

  std::filesystem::path rank_directory() const;             // {path}/rank_{r}
  std::filesystem::path step_directory(StepId step) const;  // …/{net_name}/{graph}/{iteration}
  // Before 2.7: what came into a graph's first recorded step from outside lies in a directory of its own.
  bool has_constants() const { return release_ < Release::v2_7; }
  std::filesystem::path constants_directory(std::uint32_t graph) const;  // …/{net_name}/{graph}/constants
  std::filesystem::path directory_of(StepId step, bool constants) const;
  std::filesystem::path execution_order_file(std::uint32_t graph) const;
  std::filesystem::path history_file(std::uint32_t graph) const;
  std::filesystem::path metadata_directory() const;  // …/.dump_metadata
  std::filesystem::path journal_file() const;        // …/.dump_metadata/sonde/journal

  // The graph of a step: its own files, or, for the first of a graph, the graph's.
  struct GraphPaths {
    std::filesystem::path order, ir, pb;
  };
  GraphPaths graph_files(StepId step, bool first) const;
  std::filesystem::path graphs_directory() const;                     // …/graphs
  std::filesystem::path graph_steps_file(std::uint32_t graph) const;  // which step has which files
  std::filesystem::path sources_directory() const;                    // …/graphs/sources

  std::filesystem::path execution_order_directory() const;  // …/execution_order
  std::filesystem::path own_directory() const;              // …/.dump_metadata/sonde

  // 2.0: without the scope, dots kept. Later: in full, each of `/`, `\`, `.` and space replaced by `_`.
  std::string name_in_files(const OpName& op) const;
  // "{op_type}.{op_name}.{task}.{stream}.{timestamp}.{input|output}.{slot}.{format}.{dtype}.npy"; no dtype before 2.7
  std::string tensor_file_name(const OpName& op, const TensorRecord& tensor) const;

 private:
  std::string name_prefix(const Site& site) const;

  LayoutKind kind_ = LayoutKind::mindspore_2_7;
  Release release_ = Release::v2_7;
  std::filesystem::path root_;
  std::string net_name_;
  std::uint32_t rank_ = 0;
};

// A name of an op as part of a file name: each of `/`, `\`, `.` and space becomes `_`.
std::string sanitised(std::string_view name);

// The parts of such a name, read from the right, any MindSpore version; false when it is none. A
// name of 1.2 (`.bin`) has no type, ids or time of its own, but a shape.
struct TensorFileName {
  std::string op_type, op_name, format, dtype;  // dtype empty when the name has none
  std::vector<std::int64_t> shape;              // 1.2 only: a file without a header
  std::uint64_t task_id = 0, stream_id = 0, timestamp_us = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
};
bool parse_tensor_file_name(std::string_view name, TensorFileName& out);

}  // namespace sonde
