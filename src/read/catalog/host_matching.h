// HostMatching: which operator of the host's graph is which operator of the dump. Of operators of one scope and type the
// names prove nothing: MindSpore numbers them when it compiles a graph, and again when they run (docs/format.md). So
// types, values and neighbours decide first, then names, then the order.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dump/graph/host_graph.h"
#include "read/catalog/catalog.h"
#include "read/catalog/tensor_evidence.h"

namespace sonde {

class HostMatching {
 public:
  // `steps`: all of the graph, in the order of the run. `order`: names of the graph's ops in the order of their first
  // run; empty if unknown.
  HostMatching(const HostGraph& graph, const std::vector<std::string>& order, const CatalogRank& rank,
               const std::vector<CatalogStep*>& steps);

  // By name in the dump: the op of the graph.
  std::unordered_map<std::string_view, std::uint32_t> found() const;

  // Operators whose sizes contradict those of the graph.
  struct Contradictions {
    std::size_t unknown = 0;  // of the open ones: those of the graph have other sizes, or their neighbours have
    std::size_t checked = 0, differ = 0;  // of those that were found: some of them
  };
  Contradictions contradictions();

  // Operators of one scope and type.
  struct Stem {
    std::vector<std::size_t> names;  // in the dump, in the order of their first runs; those that are still open
    std::vector<std::uint32_t> ops;  // in the graph, in the order of `order`; those that are still open
    bool same_names = true;          // the dump and the graph have the same names
    bool all_dumped = true;          // every op of the graph has one in the dump
  };
  const std::vector<Stem>& stems() const { return stems_; }
  std::string_view name(std::size_t index) const { return names_[index].name; }

 private:
  // One run of an op: its step, and its place in it.
  struct Run {
    std::size_t step, index;
  };
  struct Name {
    std::string_view name;
    std::size_t stem;
    std::vector<Run> runs;
    std::optional<std::uint32_t> op;
  };
  struct Reader {
    std::uint32_t op, slot, from_slot;
  };
  // How well an op of the dump fits one of the graph.
  struct Score {
    int fit = 0;
    bool supported = false;  // something speaks for the pair
    bool is_believable(bool same_names) const;
    friend bool operator<(const Score& a, const Score& b) { return a.fit < b.fit; }
  };
  // One step: the places of each name.
  using Places = std::unordered_map<std::size_t, std::vector<std::size_t>>;

  void collect(const std::vector<std::string>& order);
  std::size_t stem_of(std::string_view stem);
  void index_graph();
  void settle(std::size_t name, std::uint32_t op);
  void settle_by_evidence();
  // Each settles something, or returns false.
  bool settle_the_only_one(std::size_t stem);
  bool settle_the_clearest(bool supported);
  // The margin by which the pair is better than any exchange of its partners.
  struct Lead {
    int margin = 0;
    std::size_t row = 0, column = 0;
  };
  Lead lead_of(std::size_t stem, bool supported);
  bool settle_one_by_name();
  bool settle_by_name(std::size_t stem);
  bool settle_one_by_order();
  // By name and op, both still open; empty if there are too many pairs.
  const std::vector<std::vector<Score>>& scores_of(std::size_t stem);
  Score score(const Name& name, std::uint32_t op);
  int score(const Run& run, std::uint32_t op);
  int score_of_types(const CatalogOp& op, std::uint32_t candidate);
  int score_of_input(const Run& run, const CatalogTensor& input, const HostInput& from);
  int score_of_parameter(const Run& run, const CatalogTensor& input, std::uint32_t op, std::uint32_t slot,
                         const std::string& parameter);
  int score_of_reader(const Run& run, const CatalogTensor& output, const Reader& reader);
  // Same, different or unknown, for the tensor of an op of the graph that may be one of several in the dump.
  int compared(const Run& run, const CatalogTensor& tensor, std::uint32_t op, bool is_input, std::uint32_t slot,
               bool before);
  const CatalogOp* nearest(const Run& run, std::size_t name, bool before) const;
  const CatalogOp& at(const Run& run) const { return steps_[run.step]->ops[run.index]; }

  const HostGraph& graph_;
  const std::vector<CatalogStep*>& steps_;
  TensorEvidence evidence_;
  bool from_the_first_ = false;  // the first step of the run is among them
  bool has_order_ = false;
  std::vector<Name> names_;
  std::vector<Stem> stems_;
  std::unordered_map<std::string_view, std::size_t> stem_by_text_;
  std::vector<std::size_t> stem_of_op_;
  std::vector<std::optional<std::size_t>> name_of_op_;  // settled
  std::vector<std::vector<Reader>> readers_;
  std::unordered_map<std::string_view, std::vector<Reader>> readers_of_parameter_;
  std::unordered_map<std::string_view, const HostType*> parameter_types_;
  std::vector<Places> places_;
  std::vector<std::unordered_map<std::string_view, const CatalogTensor*>> parameters_;  // recorded, of each step
  bool supported_ = false;  // by what compared() found since it was reset
  std::vector<std::vector<std::vector<Score>>> scores_;
  std::vector<std::array<std::optional<Lead>, 2>> leads_;
  std::vector<bool> dirty_;  // stems with news since they were scored
};

}  // namespace sonde
