// A dump without a journal: MindSpore's own, or one whose journal is lost. All facts come from
// the names of directories and files, by statistic.csv, mapping.csv and the execution order.
#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "dump/formats/cann_types.h"
#include "dump/formats/file_names.h"
#include "dump/formats/free_names.h"
#include "dump/formats/pack.h"
#include "dump/formats/tensor_file.h"
#include "dump/layout/side_names.h"
#include "ground/base/parallel.h"
#include "ground/base/text.h"
#include "ground/files/directory.h"
#include "ground/files/mapped_file.h"
#include "read/catalog/catalog_readers.h"
#include "read/catalog/dump_tree.h"
#include "read/catalog/name_mapping.h"
#include "read/catalog/recorded_settings.h"
#include "read/catalog/statistic_table.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

// Real names of ops by their names in file names, from the execution order of a graph, and of the steps that differ
// from it: graphs/step_{iteration}.
class OrderNames {
 public:
  // `rank`, `metadata`: where such files may lie.
  OrderNames(const fs::path& rank, const fs::path& metadata, std::uint32_t graph) {
    const std::string name = order_name(graph);
    for (const fs::path& place : {rank, metadata}) {
      read(place / kOrderDirectory / name);
      std::error_code ignored;
      for (const fs::directory_entry& entry : fs::directory_iterator(place / kGraphsDirectory, ignored)) {
        if (is_graphs_of_step_name(entry.path().filename().native())) read(entry.path() / name);
      }
    }
  }

  // `name` itself if it is unknown.
  const std::string& real(const std::string& op_type, const std::string& name) const {
    const std::string key = comparable_name(name);
    if (const auto whole = names_.find(key); whole != names_.end()) return whole->second;
    const auto end = op_type != "Parameter" ? ends_.find(key) : ends_.end();
    return end != ends_.end() && !end->second.empty() ? end->second : name;
  }

 private:
  void read(const fs::path& path) {
    const Result<std::string> text = read_whole_file(path);
    if (!text) return;
    for (const std::string_view line : split(*text, '\n')) {
      names_.emplace(comparable_name(line), line);
      // 2.0 leaves the scope out; there all names end differently.
      const auto [at, is_new] = ends_.try_emplace(comparable_name(line.substr(line.rfind('/') + 1)), line);
      if (!is_new && at->second != line) at->second.clear();
    }
  }

  std::unordered_map<std::string, std::string> names_, ends_;
};

std::map<std::string, std::string> long_names(const fs::path& directory, Catalog& catalog) {
  NameMapping read = read_name_mapping(directory);
  if (!read.problem.empty()) catalog.problems.push_back({directory / "mapping.csv", read.problem});
  return std::move(read.names);
}

// A tensor by its file name, or by its place in the file of an op.
struct TreeTensor {
  TensorFileName name;
  std::string real_name;  // of the op, where the file says it
  DType dtype = DType::undefined;
  std::optional<std::vector<std::int64_t>> shape;
  std::string path;  // relative to the rank's directory
};

struct FoundFiles {
  std::vector<TreeTensor> tensors;
  std::vector<std::pair<OpFileName, fs::path>> tables;
};

void add_tensor_file(const std::string& name, const std::string& path, std::vector<TreeTensor>& tensors) {
  TreeTensor tensor;
  if (!parse_tensor_file_name(name, tensor.name)) {
    if (!is_free_tensor_name(name)) return;
    // The name is unknown (mapping.csv is lost), or the file is not part of the dump.
    const FreeTensorName free = parse_free_tensor_name(name);
    tensor.name.op_name = free.op_name;
    tensor.name.op_type = free.op_type;
    tensor.name.is_input = free.is_input;
    tensor.name.slot = free.slot;
    tensor.name.timestamp_us = free.timestamp_us;
  }
  tensor.path = path;
  tensor.dtype = dtype_from_name(tensor.name.dtype);
  if (name.ends_with(".bin")) tensor.shape = tensor.name.shape;
  tensors.push_back(std::move(tensor));
}

void add_container(const fs::path& file, const OpFileName& name, const std::string& path, FoundFiles& found,
                   Catalog& catalog) {
  const Result<Container> container = read_container(file);
  if (!container) {
    catalog.problems.push_back({file, container.error().message});
    return;
  }
  for (const bool is_input : {true, false}) {
    const std::vector<ContainerTensor>& side = is_input ? container->inputs : container->outputs;
    for (std::size_t slot = 0; slot < side.size(); ++slot) {
      const ContainerTensor& from = side[slot];
      if (from.data_type == kCannUndefined && from.bytes == 0) continue;  // not a tensor
      TreeTensor& tensor = found.tensors.emplace_back();
      tensor.name.op_type = name.op_type;
      tensor.name.op_name = name.op_name;
      tensor.name.timestamp_us = name.timestamp_us;
      tensor.name.is_input = is_input;
      tensor.name.slot = static_cast<std::uint32_t>(slot);
      tensor.real_name = container->op_name;
      tensor.dtype = dtype_of_cann(from.data_type);
      if (from.data_type != kCannUndefined) tensor.shape.emplace(from.shape.begin(), from.shape.end());
      if (from.bytes > 0) tensor.path = path;
    }
  }
}

// A file of a directory. Its path costs as much as to read its name, and few files need it.
struct FilePlace {
  const fs::path& directory;
  std::string_view entry;
  fs::path path() const { return directory / entry; }
};

// Reports entries that are not regular files, and links that lead out of the rank; false: do not read it.
bool may_read(const FilePlace& place, fs::file_type type, const fs::path& rank, Catalog& catalog) {
  if (type == fs::file_type::regular) return true;
  const fs::path path = place.path();
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return false;
  if (type == fs::file_type::symlink) {
    if (Status inside = check_link(path, rank); !inside) {
      catalog.problems.push_back({path, inside.error().message});
      return false;
    }
  }
  if (fs::is_regular_file(path, ignored)) return true;
  catalog.problems.push_back({path, "it is not a regular file; it is not read"});
  return false;
}

// The name of an op's file; if the name is not certain, its first bytes decide.
bool is_op_file(const FilePlace& file, const std::string& name, OpFileName& op) {
  if (parse_op_file_name(name, op)) return true;
  if (parse_op_file_name(name, op, true)) return op.is_table || is_container_file(file.path());
  const bool is_hash = name.find_first_not_of("0123456789") == std::string::npos;
  if (!is_hash || !is_container_file(file.path())) return false;
  op = OpFileName();
  op.op_name = name;  // until the container says its own
  return true;
}

// TorchAir numbers items of a list within it ("0.1"): the inputs of such an op are renumbered, with flattened lists.
void count_items_of_lists(std::vector<TreeTensor>& tensors) {
  std::map<std::pair<std::string_view, bool>, std::vector<TreeTensor*>> sides;
  for (TreeTensor& tensor : tensors) {
    if (!tensor.name.key.empty()) sides[{tensor.name.op_name, tensor.name.is_input}];
  }
  if (sides.empty()) return;
  for (TreeTensor& tensor : tensors) {
    const auto side = sides.find({tensor.name.op_name, tensor.name.is_input});
    if (side != sides.end()) side->second.push_back(&tensor);
  }
  for (auto& [key, side] : sides) {
    std::ranges::stable_sort(side, [](const TreeTensor* a, const TreeTensor* b) {
      const std::string &x = a->name.key, &y = b->name.key;
      if (a->name.slot != b->name.slot) return a->name.slot < b->name.slot;
      return x.size() != y.size() ? x.size() < y.size() : x < y;
    });
    std::uint32_t next = 0;
    for (TreeTensor* tensor : side) {
      if (tensor->name.key.empty() && tensor->name.slot != next) tensor->name.key = std::to_string(tensor->name.slot);
      tensor->name.slot = next++;
    }
  }
}

void add_file(const FilePlace& file, const std::string& name, const std::string& path, FoundFiles& found,
              Catalog& catalog) {
  OpFileName op;
  if (!is_op_file(file, name, op)) {
    add_tensor_file(name, path, found.tensors);
  } else if (op.is_table) {
    found.tables.emplace_back(op, file.path());
  } else if (!op.is_overflow_record()) {
    add_container(file.path(), op, path, found, catalog);
  }
}

// The tensors of a pack, as if they were files of this directory.
void add_pack(const fs::path& file, const fs::path& rank, const std::map<std::string, std::string>& mapping,
              FoundFiles& found, Catalog& catalog) {
  const Result<PackContents> contents = read_pack(file, file.lexically_relative(rank).native());
  if (!contents) {
    catalog.problems.push_back({file, contents.error().message});
    return;
  }
  if (!contents->problem.empty()) {
    catalog.problems.push_back(
        {file, contents->problem, !contents->is_tail, contents->is_tail ? ProblemKind::cut_off : ProblemKind::damaged});
  }
  for (const std::string& path : contents->paths) {
    std::string name = fs::path(path).filename();
    if (const auto mapped = mapping.find(name); mapped != mapping.end()) name = mapped->second;
    add_file({rank, path}, name, path, found, catalog);
  }
}

// By time, side, slot and path.
void sort_tensors(std::vector<TreeTensor>& tensors) {
  std::vector<TreeTensor*> order;
  order.reserve(tensors.size());
  for (TreeTensor& tensor : tensors) order.push_back(&tensor);
  std::ranges::sort(order, [](const TreeTensor* a, const TreeTensor* b) {
    if (a->name.timestamp_us != b->name.timestamp_us) return a->name.timestamp_us < b->name.timestamp_us;
    if (a->name.is_input != b->name.is_input) return a->name.is_input;
    return a->name.slot != b->name.slot ? a->name.slot < b->name.slot : a->path < b->path;
  });
  std::vector<TreeTensor> sorted;
  sorted.reserve(tensors.size());
  for (TreeTensor* const tensor : order) sorted.push_back(std::move(*tensor));
  tensors = std::move(sorted);
}

FoundFiles files_of(const fs::path& directory, const fs::path& rank, Catalog& catalog) {
  const std::map<std::string, std::string> mapping = long_names(directory, catalog);
  FoundFiles found;
  const std::string relative = directory.lexically_relative(rank).native();
  const std::string prefix = relative == "." ? "" : relative + "/";
  const std::error_code error = for_each_entry(directory, [&](std::string_view entry, fs::file_type type) {
    const FilePlace place{directory, entry};
    if (!may_read(place, type, rank, catalog)) return;
    std::string name(entry);
    const std::string path = prefix + name;
    if (const auto mapped = mapping.find(name); mapped != mapping.end()) name = mapped->second;
    if (is_pack_name(name)) {
      add_pack(place.path(), rank, mapping, found, catalog);
    } else {
      add_file(place, name, path, found, catalog);
    }
  });
  if (error) catalog.problems.push_back({directory, "cannot look into it: " + error.message()});
  sort_tensors(found.tensors);
  count_items_of_lists(found.tensors);
  std::ranges::sort(found.tables, {}, [](const auto& table) { return table.first.timestamp_us; });
  return found;
}

Phase phase_of(std::string_view name) {
  if (name.starts_with("Gradients")) return Phase::backward;
  if (name.starts_with("Default/recompute") || name.starts_with("Default_recompute")) {
    return Phase::recompute;
  }
  return name.starts_with("Default/optimizer") || name.starts_with("Default_optimizer") ? Phase::optimizer
                                                                                        : Phase::forward;
}

// Collects the tensors of one step into ops: a repeated slot belongs to a further run of the same op.
class StepReader {
 public:
  StepReader(CatalogStep& step, TextPool& texts, const OrderNames& names) : step_(step), texts_(texts), names_(names) {}

  void add_row(const StatisticRow& row) {
    CatalogTensor& tensor = slot_of(row.op_type, row.op_name, row.is_input, row.slot, row.timestamp_us);
    tensor.dtype = row.dtype;
    tensor.has_shape = true;
    tensor.shape = row.shape;
    tensor.statistics = row.statistics;
    tensor.md5 = texts_.keep(row.md5);
    tensor.sha1 = texts_.keep(row.sha1);
  }

  // Joins the row with the same op, side, slot and time, if there is one.
  void add_file(const TreeTensor& file) {
    const TensorFileName& name = file.name;
    const auto row = rows_.find(Place{key_of(name.op_type, name.op_name), name.slot, name.is_input, name.timestamp_us});
    CatalogTensor& tensor = row != rows_.end()
                                ? step_.ops[row->second.first].tensors[row->second.second]
                                : slot_of(name.op_type, name.op_name, name.is_input, name.slot, name.timestamp_us);
    tensor.file = texts_.keep_unique(file.path);
    tensor.key = texts_.keep(name.key);
    if (tensor.dtype == DType::undefined) tensor.dtype = file.dtype;
    if (!tensor.has_shape && file.shape) {
      tensor.has_shape = true;
      tensor.shape = *file.shape;
    }
    if (!file.real_name.empty()) name_op(key_of(name.op_type, name.op_name), file.real_name);
  }

  void sort_slots() {
    for (CatalogOp& op : step_.ops) {
      std::ranges::stable_sort(op.tensors, [](const CatalogTensor& a, const CatalogTensor& b) {
        return a.is_input != b.is_input ? a.is_input : a.slot < b.slot;
      });
      op.tensors.shrink_to_fit();
    }
    step_.ops.shrink_to_fit();
  }

 private:
  // The parts of a file name.
  struct Place {
    std::uint32_t key = 0, slot = 0;
    bool is_input = false;
    std::uint64_t timestamp_us = 0;
    bool operator==(const Place&) const = default;
  };
  struct PlaceHash {
    std::size_t operator()(const Place& place) const {
      const std::size_t slot = 2 * std::size_t{place.slot} + (place.is_input ? 1 : 0);
      const std::size_t mixed = (std::size_t{place.key} << 20U) + slot + place.timestamp_us;
      return mixed * 0x9E3779B97F4A7C15ULL;
    }
  };

  // A number for each name. A parameter may have the name of an op whose scope is left out. Neighbours mostly have one
  // name.
  std::uint32_t key_of(const std::string& op_type, const std::string& op_name) {
    if (op_name == last_name_ && op_type == last_type_) return last_key_;
    last_name_ = op_name;
    last_type_ = op_type;
    const std::string key = (op_type == "Parameter" ? "Parameter." : "") + comparable_name(op_name);
    last_key_ = keys_.try_emplace(key, static_cast<std::uint32_t>(keys_.size())).first->second;
    return last_key_;
  }

  CatalogTensor& slot_of(const std::string& op_type, const std::string& op_name, bool is_input, std::uint32_t slot,
                         std::uint64_t timestamp_us) {
    const std::uint32_t key = key_of(op_type, op_name);
    auto at = last_.find(key);
    if (at == last_.end() || has_slot(step_.ops[at->second], is_input, slot)) {
      at = last_.insert_or_assign(key, step_.ops.size()).first;
      step_.ops.push_back(new_op(op_type, op_name, timestamp_us));
      step_.ops.back().tensors.reserve(3);  // as most ops have
    }
    std::vector<CatalogTensor>& tensors = step_.ops[at->second].tensors;
    rows_.insert_or_assign(Place{key, slot, is_input, timestamp_us}, std::pair(at->second, tensors.size()));
    CatalogTensor tensor;
    tensor.is_input = is_input;
    tensor.slot = slot;
    tensor.timestamp_us = timestamp_us;
    tensors.push_back(std::move(tensor));
    return tensors.back();
  }

  static bool has_slot(const CatalogOp& op, bool is_input, std::uint32_t slot) {
    return std::ranges::any_of(
        op.tensors, [&](const CatalogTensor& tensor) { return tensor.is_input == is_input && tensor.slot == slot; });
  }

  // The contents of a container have priority over its name.
  void name_op(std::uint32_t key, const std::string& real_name) {
    const auto at = last_.find(key);
    if (at == last_.end()) return;
    CatalogOp& op = step_.ops[at->second];
    op.op_name = texts_.keep(real_name);
    op.phase = phase_of(op.op_name);
  }

  CatalogOp new_op(const std::string& op_type, const std::string& op_name, std::uint64_t timestamp_us) {
    CatalogOp op;
    op.op_name = texts_.keep(names_.real(op_type, op_name));
    op.op_type = texts_.keep(op_type);
    op.is_parameter = op_type == "Parameter";
    op.phase = phase_of(op.op_name);
    op.timestamp_us = timestamp_us;
    return op;
  }

  CatalogStep& step_;
  TextPool& texts_;
  const OrderNames& names_;
  std::unordered_map<std::string, std::uint32_t> keys_;
  std::string last_name_, last_type_;
  std::uint32_t last_key_ = 0;
  std::unordered_map<std::uint32_t, std::size_t> last_;  // the op that a name currently means
  std::unordered_map<Place, std::pair<std::size_t, std::size_t>, PlaceHash> rows_;  // op and tensor
};

// Reads one directory: its table, then its files.
void read_directory(const fs::path& directory, const CatalogRank& rank, StepReader& reader, Catalog& catalog) {
  const fs::path table_file = directory / "statistic.csv";
  std::error_code ignored;
  if (fs::exists(table_file, ignored)) {
    const Result<StatisticTable> table = read_statistic_table(table_file);
    if (!table) {
      catalog.problems.push_back({table_file, table.error().message});
    } else {
      for (const StatisticRow& row : table->rows) reader.add_row(row);
      if (!table->problem.empty()) catalog.problems.push_back({table_file, table->problem});
      if (table->is_torn) catalog.problems.push_back({table_file, std::string(kTornRow), true, ProblemKind::torn});
    }
  }
  const FoundFiles files = files_of(directory, rank.directory, catalog);
  for (const auto& [name, path] : files.tables) {
    const Result<StatisticTable> table = read_op_table(path, name);
    if (!table) {
      catalog.problems.push_back({path, table.error().message});
      continue;
    }
    for (const StatisticRow& row : table->rows) reader.add_row(row);
    if (!table->problem.empty()) catalog.problems.push_back({path, table->problem});
    if (table->is_torn) catalog.problems.push_back({path, std::string(kTornRow), true, ProblemKind::torn});
  }
  for (const TreeTensor& tensor : files.tensors) reader.add_file(tensor);
}

// `constants` may be empty, or the directory itself: then nothing else remains of the step.
CatalogStep read_step(const StepPlace& place, const fs::path& constants, const CatalogRank& rank,
                      const OrderNames& names, Catalog& catalog) {
  const fs::path& directory = place.directory;
  CatalogStep step;
  step.id = place.step;
  step.ended = true;
  step.directory = catalog.texts->keep(directory.lexically_relative(rank.directory).native());
  StepReader reader(step, *catalog.texts, names);
  read_directory(directory, rank, reader, catalog);
  if (!constants.empty() && constants != directory) read_directory(constants, rank, reader, catalog);
  reader.sort_slots();
  for (const CatalogOp& op : step.ops) {
    if (op.timestamp_us == 0) continue;
    if (step.started_us == 0) step.started_us = op.timestamp_us;
    step.started_us = std::min(step.started_us, op.timestamp_us);
    step.ended_us = std::max(step.ended_us, op.timestamp_us);
  }
  return step;
}

// A step that a thread has read: its texts are its own until keep_texts.
struct ReadStep {
  CatalogStep step;
  Catalog found;  // problems and texts
};

// Replaces all texts of the step by those of `texts`, in which equal texts are one.
void keep_texts(CatalogStep& step, TextPool& texts) {
  step.directory = texts.keep(step.directory);
  for (CatalogOp& op : step.ops) {
    op.op_name = texts.keep(op.op_name);
    op.op_type = texts.keep(op.op_type);
    for (CatalogTensor& tensor : op.tensors) {
      tensor.key = texts.keep(tensor.key);
      tensor.md5 = texts.keep(tensor.md5);
      tensor.sha1 = texts.keep(tensor.sha1);
      tensor.file = texts.keep_unique(tensor.file);
    }
  }
}

// The constants of a graph belong to the first of its steps, in which they were written.
std::map<fs::path, fs::path> constants_by_step(std::vector<StepPlace> steps, const std::vector<fs::path>& constants) {
  std::ranges::stable_sort(steps, {}, [](const StepPlace& place) { return place.step.number; });
  std::map<fs::path, fs::path> found;
  for (const fs::path& directory : constants) {
    const auto first = std::ranges::find(steps, directory.parent_path(),
                                         [](const StepPlace& place) { return place.directory.parent_path(); });
    if (first != steps.end()) found.emplace(first->directory, directory);
  }
  return found;
}

}  // namespace

std::string comparable_name(std::string_view name) {
  std::string out = sanitised(name);
  for (std::size_t at = out.find("--"); at != std::string::npos; at = out.find("--", at)) {
    out.replace(at, 2, "_");
  }
  return out;
}

void read_rank_tree(const std::vector<StepPlace>& steps, const std::vector<fs::path>& constants, CatalogRank& rank,
                    Catalog& catalog, const std::function<void()>& step_done) {
  std::map<std::uint32_t, OrderNames> names;
  for (const StepPlace& place : steps) {
    names.try_emplace(place.step.graph, rank.directory, rank.metadata, place.step.graph);
  }
  const std::map<fs::path, fs::path> constants_of = constants_by_step(steps, constants);
  std::vector<ReadStep> read(steps.size());
  Threads().for_each(steps.size(), [&](std::size_t i) {
    const StepPlace& place = steps[i];
    const auto own = constants_of.find(place.directory);
    read[i].step = read_step(place, own != constants_of.end() ? own->second : fs::path(), rank,
                             names.at(place.step.graph), read[i].found);
    if (step_done) step_done();
  });
  for (ReadStep& each : read) {
    keep_texts(each.step, *catalog.texts);
    std::ranges::move(each.found.problems, std::back_inserter(catalog.problems));
    rank.steps.push_back(std::move(each.step));
    each.found = Catalog();
  }
  std::ranges::stable_sort(rank.steps, [](const CatalogStep& a, const CatalogStep& b) {
    return a.id.graph != b.id.graph ? a.id.graph < b.id.graph : a.id.number < b.id.number;
  });
  CatalogRun run;
  run.finished = true;
  run.settings = recorded_settings(rank.metadata);
  std::uint64_t sequence = 0;
  for (CatalogStep& step : rank.steps) {
    for (CatalogOp& op : step.ops) op.sequence = sequence++;
    if (step.started_us != 0 && (run.started_us == 0 || step.started_us < run.started_us)) {
      run.started_us = step.started_us;
    }
    run.ended_us = std::max(run.ended_us, step.ended_us);
  }
  rank.runs.push_back(std::move(run));
}

}  // namespace sonde
