// The directories of a dump, layout by layout: one table for writing, reading and describing them. docs/format.md,
// "Trees".
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "dump/journal/record.h"
#include "plan/config/plan.h"

namespace sonde {

// The facts that directory names give.
enum class Field : std::uint8_t { none, net, model, rank, world_size, device, time, graph, graph_from_one, step };

struct TreeValues {
  std::string net, model;
  std::string time;  // of the run, YYYYMMDDhhmmss
  std::optional<std::uint32_t> rank, world_size, device, graph;
  std::optional<std::uint64_t> step;

  StepId step_id() const { return {graph.value_or(0), step.value_or(0)}; }
};

// One directory: fixed text and the field after it, once or twice.
struct TreeLevel {
  struct Part {
    std::string_view text;
    Field field = Field::none;
    std::string_view word = {};  // the name that people see instead of the field
  };
  Part first, second = {};
};
// A path with fewer levels has empty ones at its end.
using Levels = std::array<TreeLevel, 6>;

// A layout puts most files into its `usual` directories, and some elsewhere.
enum class TreeCase : std::uint8_t { usual, later_graphs, constants, no_model, exceptions };

struct Tree {
  LayoutKind first, last;  // the layouts in which it occurs
  TreeCase which;
  Levels rank;  // of a rank's own directory, below the path of the plan
  Levels step;  // of the directory of a step, below that
};
std::span<const Tree> trees();
const Tree& tree_of(LayoutKind layout, TreeCase which = TreeCase::usual);
// The levels of a step's directory below the path of the plan.
Levels all_levels(const Tree& tree);

// rank_3/Net/0/1; empty for an unused level.
std::string path_of(const Levels& levels, const TreeValues& values);
// rank_N/Net/GRAPH/STEP, for people.
std::string path_in_words(const Levels& levels, std::string_view net_name);
std::size_t count_of(const Levels& levels);
// True if `names` may be the first directories of that place, as far as both go. Sets their values, also after one that
// does not match.
bool read_path(const Levels& levels, std::span<const std::string> names, TreeValues& values);

// YYYYMMDDhhmmss
bool is_time(std::string_view name);
// The number of `rank_3`, `worldsize8_global_rank3` or `device_3`; false for other names.
bool rank_number(std::string_view name, std::uint32_t& rank);
bool device_number(std::string_view name, std::uint32_t& device);  // only of device_3
// True for the name of a rank among several of one run, whose time directories are inside it: worldsize8_global_rank3.
bool is_rank_above_times(std::string_view name);
std::string rank_name(std::uint32_t rank);      // rank_3
std::string device_name(std::uint32_t device);  // device_3

}  // namespace sonde
