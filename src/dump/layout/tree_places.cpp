#include "dump/layout/tree_places.h"

#include "dump/layout/side_names.h"
#include "ground/base/parse_number.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

bool is_below(const fs::path& path, const fs::path& directory) {
  const fs::path relative = path.lexically_relative(directory);
  return !relative.empty() && *relative.begin() != "..";
}

// {graph}/{iteration} at the end; a directory with another name counts as 0.
StepId last_two(const fs::path& directory) {
  StepId id;
  if (!parse_number(directory.filename().native(), id.number)) id.number = 0;
  if (!parse_number(directory.parent_path().filename().native(), id.graph)) id.graph = 0;
  return id;
}

// 1.2: iteration_3, or graph_1/iteration_3.
bool read_old_step(const std::vector<std::string>& names, TreeValues& values) {
  for (const TreeCase which : {TreeCase::usual, TreeCase::later_graphs}) {
    values = {};
    if (read_path(tree_of(LayoutKind::mindspore_1_2, which).step, names, values) && values.step) return true;
  }
  return false;
}

bool fits(LayoutKind layout, std::span<const std::string> names) {
  TreeValues values;
  return read_path(tree_of(layout).step, names, values);
}

// {model_name}/{model_id}/{step}, or the beginning of it, in `acl` and in TorchAir, which names the graph twice.
TreeValues model_step(const std::vector<std::string>& names) {
  const bool is_torchair = names.size() > 1 && fits(LayoutKind::torchair, std::span(names).first(2));
  TreeValues values;
  read_path(tree_of(is_torchair ? LayoutKind::torchair : LayoutKind::acl).step, names, values);
  return values;
}

// …/{time}/{device}[/{model_name}/{model_id}/{step}]. In o0 and o2 the step comes before the time, and {path} contains
// all ranks.
StepPlace place_in_run(const fs::path& directory, const fs::path& run, const fs::path& given) {
  const std::vector<std::string> below = names_in(directory.lexically_relative(run));
  const std::vector<std::string> inside(below.begin() + 1, below.end());
  const fs::path above = run.parent_path();
  StepPlace place;
  place.rank_directory = run / below[0];
  place.metadata = place.rank_directory / kMetadataDirectory;
  if (!parse_number(below[0], place.rank)) place.rank = 0;
  if (inside.size() > 2) {
    place.step = model_step(inside).step_id();
  } else if (!inside.empty() && !parse_number(inside.back(), place.step.number)) {  // dynamic shapes: no model
    place.step.number = 0;
  }
  std::uint64_t step = 0;
  if (parse_number(above.filename().native(), step) && is_below(above.parent_path(), given)) {
    if (inside.size() == 1 && !parse_number(inside[0], place.step.graph)) place.step.graph = 0;  // o0
    place.step.number = step;
    place.rank_directory = above.parent_path();
    place.metadata = place.rank_directory / kMetadataDirectory / device_name(place.rank);
  }
  rank_number(above.filename().native(), place.rank);
  const std::string name = above.filename();  // msprobe's dump of kernels: step3
  if (name.starts_with("step")) parse_number(std::string_view(name).substr(4), place.step.number);
  return place;
}

// `graph_2` and `Net_graph_2` alone may belong to several layouts; the rank's own directory decides.
bool one_name_suits(const Tree& tree, const fs::path& rank_directory) {
  const bool has_time = is_time(rank_directory.parent_path().filename().native());
  std::uint32_t device = 0;
  if (tree.first == LayoutKind::torchair) return has_time;
  if (tree.which == TreeCase::later_graphs) return !has_time;
  if (tree.first == LayoutKind::mindspore_1_2_async) return device_number(rank_directory.filename().native(), device);
  return true;
}

}  // namespace

std::vector<std::string> names_in(const fs::path& path) {
  std::vector<std::string> names;
  for (const fs::path& name : path) {
    if (!name.empty() && name != ".") names.push_back(name);
  }
  return names;
}

RankOf rank_of(const fs::path& directory) {
  RankOf out;
  std::uint32_t number = 0;
  const fs::path parent = directory.parent_path();
  if (is_time(parent.filename().native())) {
    out.run = parent;
    out.dump = parent.parent_path();
    out.rank = directory.filename();
    if (is_rank_above_times(out.dump.filename().native())) {
      out.rank = (out.dump.filename() / out.rank).native();
      out.dump = out.dump.parent_path();
    }
  } else if (rank_number(directory.filename().native(), number)) {
    out.dump = parent;
    out.rank = directory.filename();
  } else {
    out.dump = directory;
  }
  return out;
}

StepFilter filter_of(const fs::path& rank_directory, const fs::path& inside) {
  const std::vector<std::string> names = names_in(inside);
  if (names.empty()) return {};
  for (const Tree& tree : trees()) {
    const std::size_t levels = count_of(tree.step);
    if (levels == 0 || (names.size() == 1 && !one_name_suits(tree, rank_directory))) continue;
    TreeValues values;
    // The name of a net may be a number: then more levels show that the layout is o2.
    if (tree.first == LayoutKind::o0 && names.size() > levels && fits(LayoutKind::o2, names)) continue;
    // the path has no level for the graph
    if (tree.first == LayoutKind::mindspore_1_2 && tree.which == TreeCase::usual) values.graph = 0;
    if (read_path(tree.step, names, values)) return {values.graph, values.step};
  }
  // A path below that of a step, or slightly different from one: uses the levels that fit.
  TreeValues values;
  if (names.size() > 1 && is_time(names[1])) {
    read_path(tree_of(LayoutKind::o2).step, names, values);
  } else {
    values = model_step(names);
  }
  return {values.graph, values.step};
}

StepPlace place_of(const fs::path& directory, const fs::path& given) {
  StepPlace place;
  place.rank_directory = given;
  place.step = last_two(directory);
  std::uint32_t number = 0;
  for (fs::path at = directory; at.has_relative_path(); at = at.parent_path()) {
    const std::string name = at.filename();
    if (is_time(name) && at != directory) {
      place = place_in_run(directory, at, given);
      break;
    }
    if (!rank_number(name, number)) continue;
    place.rank_directory = at;
    place.rank = number;
    TreeValues values;
    const std::vector<std::string> inside = names_in(directory.lexically_relative(at));
    if (!inside.empty() && read_old_step(inside, values)) place.step = values.step_id();
    break;
  }
  place.directory = directory;
  if (place.metadata.empty()) place.metadata = place.rank_directory / kMetadataDirectory;
  return place;
}

}  // namespace sonde
