// Layout: the names and numbers of ops, and the names of directories and files of a dump.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "dump/formats/file_names.h"
#include "dump/journal/record.h"
#include "dump/layout/side_names.h"
#include "dump/layout/trees.h"
#include "plan/config/plan.h"

namespace sonde {

// The kind of file that holds the tensors.
enum class TensorForm : std::uint8_t {
  npy,        // a .npy file each
  raw,        // a .bin file each, without a header (1.2)
  container,  // one file with all tensors of an op (container.h)
};

// Before 2.7 the name of an op without its scope can occur twice, so the number distinguishes ops. CANN's files contain
// the number of the task that ran the op; 65535 means none.
inline constexpr std::uint32_t kNoTask = 65535;
std::uint32_t task_number(const NamedRecord& record);

// The class of the root module that an op ran in, from its full name: `AlexNet` of
// `Gradients/Default/network1-AlexNet/conv-Conv2d/…`. Empty: outside every module.
std::string_view root_module(std::string_view op_name);

class Layout {
 public:
  static Layout make(const Plan& plan, const RunInfo& run);
  LayoutKind kind() const { return kind_; }
  Release release() const { return release_; }
  TensorForm tensor_form() const { return form_; }
  // A separate csv for every op, as CANN writes it, replaces statistic.csv.
  bool has_op_tables() const { return kind_ == LayoutKind::acl || kind_ == LayoutKind::torchair; }
  // Written by the device's own software: names with the number of the task.
  bool is_of_cann() const { return kind_ >= LayoutKind::ge; }
  // npy files with the number of the task and CANN's name of the format, and records of overflows beside them.
  bool has_tasks() const { return is_of_cann() || is_asynchronous_2_0_; }

  // --- names of ops --------------------------------------------------------------------------------------------------
  // Ops with the same key, type and scope share one counter within a step.
  std::string number_key(const Site& site) const;
  // Up to 2.0 the number of an op is that of its node among all nodes of the run, of all types, and not among the ops
  // with its key. So names without scope stay distinct.
  bool numbers_throughout() const { return release_ <= Release::v2_0; }
  // forward   Default/{scope}/{type}-op{n}
  // recompute Default/recompute/{scope}/{type}-op{n}
  // backward  Gradients/Default/{scope}/Grad_{forward type}/{type}-op{n}; before 2.7 `grad{forward type}`
  //           Gradients/Default/{type}-op{n}, the forward op unknown
  // optimizer Default/{scope}/{type}-op{n}, scope `optimizer-SGD`
  std::string op_name(const Site& site, std::uint32_t number) const;

  // --- directories: docs/format.md, "Trees" --------------------------------------------------------------------------
  const std::filesystem::path& root() const { return root_; }  // the plan's path
  // One rank's own directory. Paths in the journal are relative to it.
  std::filesystem::path rank_directory() const { return rank_directory_; }
  // The directory for the files of `record`, relative to rank_directory(), with a `/` at the end; empty:
  // rank_directory() itself.
  std::string directory_of(const NamedRecord& record) const;
  // Up to 2.5, in rank_N: data from outside the graph's first recorded step has a directory of its own.
  bool has_constants() const { return has_rank_tree() && release_ < Release::v2_7; }
  std::filesystem::path metadata_directory() const { return metadata_; }               // …/.dump_metadata
  std::filesystem::path own_directory() const { return own_directory_in(metadata_); }  // …/.dump_metadata/sonde
  std::filesystem::path journal_file() const { return journal_in(metadata_); }  // …/.dump_metadata/sonde/journal

  std::filesystem::path execution_order_directory() const { return sides_ / kOrderDirectory; }
  std::filesystem::path execution_order_file(std::uint32_t graph) const;
  std::filesystem::path history_file(std::uint32_t graph) const;
  // The graph of a step: its own files, or, for the first of a graph, the graph's.
  struct GraphPaths {
    std::filesystem::path order, ir, pb;
  };
  GraphPaths graph_files(StepId step, bool first) const;
  std::filesystem::path graphs_directory() const { return sides_ / kGraphsDirectory; }
  std::filesystem::path graph_steps_file(std::uint32_t graph) const;  // the files of each step
  std::filesystem::path sources_directory() const { return graphs_directory() / kSourcesDirectory; }

  // 1.2: {path}/.metadata/data_dump.json, that version's own copy of the configuration; empty in others.
  std::filesystem::path old_config_copy() const;
  // 1.3 to 2.3: …/.dump_metadata/hccl.json, the rank table; empty in others.
  std::filesystem::path rank_table_copy() const;
  // O2: {path}/acl_dump_{device}.json, the options that MindSpore passes to CANN; empty in others.
  std::filesystem::path acl_config() const;
  std::uint32_t device() const { return device_; }

  // --- names of files ------------------------------------------------------------------------------------------------
  // 2.0: without the scope, dots kept. 1.2: `/` as `--`. Later: in full, each of `/`, `\`, `.` and space as `_`.
  std::string name_in_files(const OpName& op) const;
  // npy  "{op_type}.{op_name}.{task}.{stream}.{timestamp}.{input|output}.{slot}.{format}.{dtype}.npy"; no dtype before 2.7
  // raw  "{op_name}_{input|output}_{slot}_shape_{sizes}_{Type}_{format}.bin"
  // `attempt`: the number of names already taken; names with a time then have another `timestamp_us`.
  std::string tensor_file_name(const OpName& op, const RecordedTensor& tensor, std::uint32_t task = 0,
                               int attempt = 0) const;
  // "{op_type}.{op_name}.{task}.{stream}.{timestamp}"; 1.2 has no stream. For the container and the files beside it.
  std::string op_file_name(const OpName& op, std::uint32_t task, std::uint64_t timestamp_us) const;
  // The number of the task in names of single tensors and in tables; 0 in synchronous dumps.
  std::uint32_t shown_task(const NamedRecord& record) const { return has_tasks() ? task_number(record) : 0; }

 private:
  bool has_rank_tree() const { return kind_ >= LayoutKind::mindspore_2_0 && kind_ <= LayoutKind::mindspore_2_7; }
  bool begins_with_step() const { return kind_ == LayoutKind::o0 || kind_ == LayoutKind::o2; }
  std::string name_prefix(const Site& site) const;
  void place();
  std::string model_of(const NamedRecord& record) const;

  LayoutKind kind_ = LayoutKind::mindspore_2_7;
  Release release_ = Release::v2_7;
  TensorForm form_ = TensorForm::npy;
  std::filesystem::path root_;
  TreeValues values_;  // of the run and the rank
  std::uint32_t device_ = 0;
  bool is_asynchronous_2_0_ = false;
  bool exceptions_ = false;  // acl: the ops that threw, in a directory of their own
  std::filesystem::path rank_directory_, metadata_, sides_;
};

}  // namespace sonde
