// GraphFiles: the files about the graphs of a rank: execution order, `.ir` and `.pb`, and the sources that they name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dump/graph/build.h"
#include "dump/graph/source_text.h"
#include "dump/journal/record.h"
#include "dump/layout/layout.h"
#include "ground/files/files.h"
#include "sonde/dims.h"

namespace sonde {

// For one thread; records come in sequence order. The files of a graph are those of its first step. A step whose ops or
// data flow differ from all earlier ones gets its own files in `graphs/step_{n}/`, and a table lists the files of each
// step. Both are bounded: after kMostGraphs different ones, and for a step of more than kMostOps, there are no files, and
// the table says `none`.
class GraphFiles {
 public:
  static constexpr std::size_t kMostGraphs = 256;   // of one number
  static constexpr std::size_t kMostOps = 1 << 17;  // of one step; each costs some 500 bytes of memory

  // `rank` and `aside` are open directories that outlive this object. Without `with_sources` no text of the program is
  // written.
  GraphFiles(const Layout& layout, int rank, int aside, SourceLines lines = SourceLines::all, bool with_sources = true);

  void define(const Site& site);
  void define(const OpName& name);
  void define(const Attributes& attributes);
  void define(const SourceText& text);

  void begin_step(StepId step);
  void add(const Record& record);
  Status end_step(StepId step);
  Status flush();   // sources named since the last call, rows of the tables
  Status finish();  // steps that did not end; closes the tables
  // Lines about what was left out since the last call, for the journal; each is said once.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct StepTensor : TensorMeta {
    std::uint32_t name;  // id of the parameter's, gradient's or state's; 0: none
  };
  struct StepOp {
    std::uint64_t sequence;
    std::uint32_t name, site, attributes;  // ids
    std::size_t first = 0, count = 0;      // its tensors, in those of the step
  };
  // An open step.
  struct Step {
    StepId id;
    std::uint64_t hash = 0;   // of its ops, in order, and of their inputs
    std::vector<StepOp> ops;  // by sequence
    std::vector<StepTensor> tensors;
    bool too_long = false;  // its ops were dropped

    std::span<const StepTensor> tensors_of(const StepOp& op) const {
      return std::span(tensors).subspan(op.first, op.count);
    }
    // The index of an op; empty if it is not in this step.
    std::optional<std::uint32_t> find(std::uint64_t sequence) const;
    void add_tensors(StepOp& op, const Record& record);
  };
  struct GraphState {
    std::optional<Step> step;
    std::map<std::uint64_t, std::uint64_t> known;  // hash of a step -> the step whose files show it
    std::optional<AppendFile> table;
    bool seen = false;  // a step has ended
  };

  const OpName& name_of(std::uint32_t id) const;
  static void hash_op(Step& step, const StepOp& op);
  static void complete(Step& step, const Record& record);
  static std::optional<std::uint32_t> maker_of(const Step& step, const StepTensor& tensor);
  Graph graph_of(const Step& step) const;
  void forget_old_attributes();
  Status write(const Step& step, bool first);
  Result<Fd> directory_of(const std::filesystem::path& file) const;
  Status write_file(const std::filesystem::path& path, const std::string& text);
  Status note_step(GraphState& state, std::optional<std::uint64_t> shown_by);
  void leave_out(Step& step);
  Status write_source(const std::string& file);

  Layout layout_;
  int rank_, aside_;
  SourceLines lines_;
  bool with_sources_;
  std::vector<Site> sites_;                         // index = id
  std::vector<OpName> names_;                       // index = id
  std::map<std::uint32_t, Attributes> attributes_;  // by id; those that ops may still use
  SourceTexts sources_;
  std::set<std::string> sources_seen_;
  std::vector<std::string> sources_to_write_;
  std::map<std::uint32_t, GraphState> graphs_;
  Step last_;  // the memory of a step that has ended, for the next one
  std::vector<std::string> notes_;
};

}  // namespace sonde
