// Layout: the directories of a dump, and the files beside its tensors. names() has the names of ops and of their files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "dump/journal/record.h"
#include "dump/layout/names.h"
#include "dump/layout/side_names.h"
#include "dump/layout/trees.h"
#include "plan/config/plan.h"

namespace sonde {

class Layout {
 public:
  static Layout make(const Plan& plan, const RunInfo& run);
  LayoutKind kind() const { return kind_; }
  Release release() const { return release_; }
  TensorForm tensor_form() const { return form_; }
  LayoutNames names() const { return {kind_, release_, form_, has_tasks(), exceptions_}; }
  // A separate csv for every op, as CANN writes it, replaces statistic.csv.
  bool has_op_tables() const { return kind_ == LayoutKind::acl || kind_ == LayoutKind::torchair; }
  // Written by the device's own software: names with the number of the task.
  bool is_of_cann() const { return kind_ >= LayoutKind::ge; }
  // npy files with the number of the task and CANN's name of the format, and records of overflows beside them.
  bool has_tasks() const { return is_of_cann() || is_asynchronous_2_0_; }

  // Directories: docs/format.md, "Trees".
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

 private:
  bool has_rank_tree() const { return kind_ >= LayoutKind::mindspore_2_0 && kind_ <= LayoutKind::mindspore_2_7; }
  bool begins_with_step() const { return kind_ == LayoutKind::o0 || kind_ == LayoutKind::o2; }
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
