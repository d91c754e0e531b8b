// A dump of msprobe: stepN/rankN/{dump,stack,construct,debug}.json and dump_tensor_data/.
#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "dump/formats/free_names.h"
#include "ground/files/mapped_file.h"
#include "ground/model/gradient_name.h"
#include "ground/model/source_line.h"
#include "read/catalog/catalog_readers.h"
#include "read/catalog/dump_tree.h"
#include "read/catalog/msprobe_records.h"
#include "read/catalog/recorded_settings.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr const char* kData = "dump_tensor_data";

// The tensor files beside a dump.json: the existing ones, and those that lead out of the dump.
class DataFiles {
 public:
  DataFiles(const fs::path& directory, const fs::path& root, Catalog& catalog) {
    std::error_code error;
    for (fs::directory_iterator at(directory / kData, error), end; !error && at != end; at.increment(error)) {
      std::error_code ignored;
      const std::string name = at->path().filename();
      if (at->is_symlink(ignored)) {
        if (Status inside = check_link(at->path(), root); !inside) {
          catalog.problems.push_back({at->path(), inside.error().message});
          refused_.insert(name);
          continue;
        }
      }
      if (at->is_regular_file(ignored)) {
        names_.insert(name);
      } else {
        catalog.problems.push_back({at->path(), "it is not a regular file; it is not read"});
        refused_.insert(name);
      }
    }
    const bool is_missing = error == std::errc::no_such_file_or_directory;
    if (error && !is_missing)
      catalog.problems.push_back({directory / kData, "cannot look into it: " + error.message()});
  }

  bool has(const std::string& name) {
    if (!names_.contains(name)) return false;
    used_.insert(name);
    return true;
  }
  bool refused(const std::string& name) const { return refused_.contains(name); }
  // Files that no record names, in the order of their names.
  std::set<std::string> left() const {
    std::set<std::string> left;
    for (const std::string& name : names_) {
      if (!used_.contains(name) && is_free_tensor_name(name)) left.insert(name);
    }
    return left;
  }

 private:
  std::unordered_set<std::string> names_, used_, refused_;
};

// Reads one step of one rank.
class MsprobeReader {
 public:
  MsprobeReader(const MsprobePlace& place, const CatalogRank& rank, std::vector<Site>& sites, CatalogStep& step,
                Catalog& catalog)
      : place_(place),
        files_(place.directory, rank.directory, catalog),
        rank_(rank),
        step_(step),
        catalog_(catalog),
        texts_(*catalog.texts),
        sites_(sites) {}

  // The task that the dump was made with.
  MsprobeHead read() {
    read_parents();
    read_stacks();
    MsprobeHead head;
    for (const char* name : {"dump.json", "debug.json"}) {
      if (!place_.has(name)) continue;
      const fs::path path = place_.directory / name;
      with_text(path, [&](std::string_view text) {
        return read_msprobe_records(text, head, [&](MsprobeRecord&& record) { add(std::move(record)); });
      });
    }
    add_unnamed_files();
    report_missing_files();
    return head;
  }

 private:
  template <typename Read>
  void with_text(const fs::path& path, Read read) {
    const Result<MappedFile> file = MappedFile::open(path);
    if (!file) {
      if (file.error().code != ErrorCode::not_found) catalog_.problems.push_back({path, file.error().message});
      return;
    }
    const std::string problem = read(file->text());
    if (!problem.empty()) {
      catalog_.problems.push_back({path, problem + "; the part before it is shown"});
    }
  }

  void read_parents() {
    with_text(place_.directory / "construct.json", [&](std::string_view text) {
      return read_msprobe_parents(text, [&](std::string_view name, std::string_view parent) {
        if (!parent.empty()) parents_[texts_.keep(name)] = texts_.keep(parent);
      });
    });
  }

  void read_stacks() {
    with_text(place_.directory / "stack.json", [&](std::string_view text) {
      return read_msprobe_stacks(text, [&](std::vector<std::string>&& names, std::vector<SourceLine>&& lines) {
        if (lines.empty()) return;
        // The user's lines first, as everywhere; the framework's own lines do not help.
        std::vector<SourceLine> own;
        for (const SourceLine& line : lines) {
          if (!is_of_a_library(line.file)) own.push_back(line);
        }
        Site& site = sites_.emplace_back();
        site.id = static_cast<std::uint32_t>(sites_.size());
        site.trace = own.empty() ? std::move(lines) : std::move(own);
        for (const std::string& name : names) site_of_[texts_.keep(name)] = sites_.size();
      });
    });
  }

  // "layers/0/attn-Attention" of `Module.layers.0.attn.Attention.forward.0`.
  std::string_view scope_of(std::string_view module) {
    MsprobeName name;
    if (module.empty() || !parse_msprobe_name(module, name) || !name.is_module) return module;
    std::string scope(name.path);
    std::ranges::replace(scope, '.', '/');
    return texts_.keep(scope + (scope.empty() ? "" : "-") + std::string(name.called));
  }

  CatalogOp& op_of(const std::string& op_name) {
    CatalogOp op;
    op.op_name = texts_.keep(op_name);
    op.sequence = step_.ops.size();
    MsprobeName name;
    if (parse_msprobe_name(op_name, name)) {
      op.op_type = texts_.keep(name.is_gradient ? "parameters_grad" : name.called);
      op.is_module = name.is_module && !name.is_gradient;
      op.phase = name.is_backward ? Phase::backward : Phase::forward;
    } else {
      op.op_type = op.op_name.substr(0, op.op_name.find('.'));
    }
    const auto parent = parents_.find(op.op_name);
    if (parent != parents_.end()) {
      op.parent = parent->second;
      if (op.parent == "optimizer" || op.parent == "clip_grad") op.phase = Phase::optimizer;
      op.scope = scope_of(op.parent);
    }
    if (const auto site = site_of_.find(op.op_name); site != site_of_.end())
      has_site_.emplace(op.sequence, site->second);
    return step_.ops.emplace_back(std::move(op));
  }

  void add(MsprobeRecord&& record) {
    CatalogOp& op = op_of(record.name);
    if (record.is_recompute) op.phase = Phase::recompute;
    MsprobeName name;
    const bool of_module = parse_msprobe_name(record.name, name) && name.is_module;
    for (MsprobeItem& item : record.items) {
      CatalogTensor& tensor = op.tensors.emplace_back();
      tensor.is_input = item.is_input;
      tensor.slot = item.slot;
      tensor.key = texts_.keep(item.key);
      tensor.dtype = item.dtype;
      tensor.has_shape = item.has_shape;
      tensor.shape = std::move(item.shape);
      tensor.statistics = item.statistics;
      tensor.md5 = texts_.keep(item.checksum);
      tensor.constant = item.constant;
      if (of_module && (item.is_parameter || name.is_gradient)) {
        const std::string own = (name.path.empty() ? "" : std::string(name.path) + ".") + item.key;
        tensor.parameter = texts_.keep(name.is_gradient ? gradient_name(own) : own);
      }
      if (!item.data_name.empty()) add_file(item.data_name, tensor);
    }
    sort_slots(op);
  }

  static void sort_slots(CatalogOp& op) {
    std::ranges::stable_sort(op.tensors, [](const CatalogTensor& a, const CatalogTensor& b) {
      return a.is_input != b.is_input ? a.is_input : a.slot < b.slot;
    });
  }

  void add_file(const std::string& name, CatalogTensor& tensor) {
    if (name.find('/') != std::string::npos || name == "..") {
      if (++leaving_ == 1) first_leaving_ = name;
    } else if (files_.has(name)) {
      tensor.file =
          texts_.keep_unique(((place_.directory / kData).lexically_relative(rank_.directory) / name).native());
    } else if (!files_.refused(name) && ++missing_ == 1) {
      first_missing_ = name;
    }
  }

  // The JSON is written late: if the program was killed, there may be tensors that it does not name.
  void add_unnamed_files() {
    const std::set<std::string> left = files_.left();
    if (left.empty()) return;
    std::unordered_map<std::string_view, std::size_t> ops;
    for (std::size_t i = 0; i < step_.ops.size(); ++i) ops[step_.ops[i].op_name] = i;
    for (const std::string& file : left) {
      const FreeTensorName name = parse_free_tensor_name(file);
      auto at = ops.find(name.op_name);
      if (at == ops.end()) {
        const CatalogOp& op = op_of(name.op_name);
        at = ops.emplace(op.op_name, step_.ops.size() - 1).first;
      }
      CatalogOp& op = step_.ops[at->second];
      CatalogTensor& tensor = op.tensors.emplace_back();
      tensor.is_input = name.is_input;
      tensor.slot = name.slot;
      tensor.key = texts_.keep(name.key);
      for (const CatalogTensor& other : op.tensors) {
        const bool taken = &other != &tensor && other.is_input == tensor.is_input && other.slot >= tensor.slot;
        if (taken) tensor.slot = other.slot + 1;
      }
      tensor.file =
          texts_.keep_unique(((place_.directory / kData).lexically_relative(rank_.directory) / file).native());
      sort_slots(op);
    }
    catalog_.problems.push_back({place_.directory / kData,
                                 std::to_string(left.size()) + " tensors are in no record, such as '" + *left.begin() +
                                     "': the program may have been killed; their names identify the op"});
  }

  void report_missing_files() {
    const fs::path path = place_.directory / "dump.json";
    if (leaving_ > 0) {
      catalog_.problems.push_back({path, std::to_string(leaving_) + " tensors have a data_name that leaves " + kData +
                                             ", such as '" + first_leaving_ + "'; they are not read"});
    }
    if (missing_ > 0) {
      catalog_.problems.push_back({path, std::to_string(missing_) + " tensor files do not exist, such as '" +
                                             first_missing_ + "' in " + kData});
    }
  }

 public:
  // The sites of the ops, by index; to be joined when all sites are known.
  const std::map<std::uint64_t, std::size_t>& sites_by_op() const { return has_site_; }

 private:
  const MsprobePlace& place_;
  DataFiles files_;
  const CatalogRank& rank_;
  CatalogStep& step_;
  Catalog& catalog_;
  TextPool& texts_;
  std::vector<Site>& sites_;
  std::unordered_map<std::string_view, std::string_view> parents_;
  std::unordered_map<std::string_view, std::size_t> site_of_;  // from 1
  std::map<std::uint64_t, std::size_t> has_site_;
  std::size_t missing_ = 0, leaving_ = 0;
  std::string first_missing_, first_leaving_;
};

void join_site(const Site& site, CatalogOp& op) {
  const SourceLine& line = site.trace.front();
  op.source_file = line.file;
  op.line = line.line;
  op.function = line.function;
  op.trace = &site.trace;
}

}  // namespace

void read_msprobe_rank(const std::vector<MsprobePlace>& places, CatalogRank& rank, Catalog& catalog) {
  auto sites = std::make_shared<std::vector<Site>>();
  std::vector<std::map<std::uint64_t, std::size_t>> joined;
  CatalogRun run;
  run.finished = true;
  run.settings = recorded_settings(rank.metadata);
  for (const MsprobePlace& place : places) {
    CatalogStep& step = rank.steps.emplace_back();
    step.id.number = place.step;
    step.ended = true;
    step.directory = catalog.texts->keep(place.directory.lexically_relative(rank.directory).native());
    MsprobeReader reader(place, rank, *sites, step, catalog);
    const MsprobeHead head = reader.read();
    joined.push_back(reader.sites_by_op());
    run.saved_data = head.task;
    run.host =
        head.framework.empty() ? "" : head.framework + ", msprobe" + (head.level.empty() ? "" : " " + head.level);
  }
  std::uint64_t sequence = 0;
  for (std::size_t i = 0; i < rank.steps.size(); ++i) {
    CatalogStep& step = rank.steps[i];
    for (const auto& [op, site] : joined[i]) join_site((*sites)[site - 1], step.ops[op]);
    for (CatalogOp& op : step.ops) op.sequence = sequence++;
  }
  std::ranges::stable_sort(rank.steps, {}, [](const CatalogStep& step) { return step.id.number; });
  run.layout = "msprobe";
  run.sites = std::move(sites);
  rank.runs.push_back(std::move(run));
}

}  // namespace sonde
