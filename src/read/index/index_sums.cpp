#include "read/index/index_sums.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "ground/base/parallel.h"
#include "ground/files/brought_files.h"
#include "ground/files/files.h"
#include "ground/files/packed_path.h"
#include "read/measure/health.h"

namespace sonde {
namespace {

struct CountedStep {
  StepSum sum;                  // new_bytes: of the files that are not in `files`
  std::vector<DiskFile> files;  // each once
  bool has_links = false;       // a name is a symbolic link, so that a file with one name may count twice
};

const CatalogOp& op_of(const CatalogOp& op) { return op; }
const CatalogOp& op_of(const CatalogOp* op) { return *op; }

// The files of a step, most of which lie in one directory: names in it are found faster than whole paths.
class StepFiles {
 public:
  explicit StepFiles(const CatalogRank& rank) : rank_(rank) {}

  // Without following a link if the file is in a directory. False if there is no such file.
  bool look(std::string_view file, struct stat& status) {
    if (is_brought(rank_.directory)) return stat_tensor(path_of(file), status) == 0;
    const std::size_t slash = file.rfind('/');
    const std::string_view directory = file.substr(0, slash == std::string_view::npos ? 0 : slash);
    if (directory != directory_ || !is_open_) {
      directory_ = directory;
      is_open_ = true;
      opened_ = Fd(::open(path_of(directory).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    }
    if (!opened_) return stat_tensor(path_of(file), status) == 0;  // a pack
    name_.assign(file.substr(slash == std::string_view::npos ? 0 : slash + 1));
    return ::fstatat(opened_.get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0;
  }

  bool follow(std::string_view file, struct stat& status) { return stat_tensor(path_of(file), status) == 0; }

 private:
  const std::string& path_of(std::string_view file) {
    return path_.assign(rank_.directory.native()).append("/").append(file);
  }

  const CatalogRank& rank_;
  std::string_view directory_;
  bool is_open_ = false;
  Fd opened_;
  std::string name_, path_;
};

// `names_are_files`: a file whose only name is that of one tensor is counted without a record of it.
template <typename Ops>
CountedStep count_ops(const CatalogRank& rank, const Ops& ops, bool names_are_files) {
  CountedStep counted;
  DiskFiles seen;
  std::string_view last_file;  // of a container, which holds several tensors
  StepFiles files(rank);
  for (const auto& each : ops) {
    const CatalogOp& op = op_of(each);
    (op.is_parameter ? counted.sum.parameters : counted.sum.ops) += 1;
    for (const CatalogTensor& tensor : op.tensors) {
      if (!tensor.recorded()) continue;
      ++counted.sum.tensors;
      if (tensor.file.empty() || is_elsewhere(tensor)) continue;
      if (tensor.file == last_file) continue;
      ++counted.sum.files;
      last_file = tensor.file;
      struct stat status {};
      if (!files.look(tensor.file, status)) continue;
      if (S_ISLNK(status.st_mode)) {
        counted.has_links = true;
        if (!files.follow(tensor.file, status)) continue;
      }
      const DiskFile file = {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size)};
      if (names_are_files && status.st_nlink == 1 && tensor.file.ends_with(".npy")) {
        counted.sum.bytes += file.bytes;
        counted.sum.new_bytes += file.bytes;
        continue;
      }
      if (!seen.insert(file).second) continue;
      counted.sum.bytes += file.bytes;
      counted.files.push_back(file);
    }
  }
  return counted;
}

void add_new(CountedStep& step, DiskFiles& seen) {
  for (const DiskFile& file : step.files) {
    if (seen.insert(file).second) step.sum.new_bytes += file.bytes;
  }
}

using Steps = std::vector<std::pair<const CatalogRank*, const CatalogStep*>>;

// In a tree each name of a directory is one tensor. Where names are links, all files are recorded after all.
std::vector<CountedStep> count_steps(const Steps& steps, bool names_are_files) {
  std::vector<CountedStep> counted(steps.size());
  Threads().for_each(steps.size(), [&](std::size_t i) {
    const auto& [rank, step] = steps[i];
    counted[i] = count_ops(*rank, step->ops, names_are_files && rank->kind == DumpKind::tree);
  });
  const bool has_links = std::ranges::any_of(counted, &CountedStep::has_links);
  return names_are_files && has_links ? count_steps(steps, false) : counted;
}

}  // namespace

StepSum StepCounter::count(const CatalogRank& rank, const std::vector<CatalogOp*>& ops) {
  CountedStep counted = count_ops(rank, ops, false);
  add_new(counted, seen_);
  return counted.sum;
}

StepSum StepCounter::count(const CatalogRank& rank, const std::vector<CatalogOp>& ops) {
  CountedStep counted = count_ops(rank, ops, false);
  add_new(counted, seen_);
  return counted.sum;
}

std::vector<std::vector<StepFacts>> step_facts(const Catalog& catalog) {
  Steps steps;
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) steps.emplace_back(&rank, &step);
  }
  std::vector<CountedStep> counted = count_steps(steps, true);
  std::vector<StepHealth> healths(steps.size());
  Threads().for_each(steps.size(), [&](std::size_t i) { healths[i] = health_of(*steps[i].second); });
  DiskFiles seen;
  std::vector<std::vector<StepFacts>> facts;
  std::size_t next = 0;
  for (const CatalogRank& rank : catalog.ranks) {
    std::vector<StepFacts>& of_rank = facts.emplace_back();
    for (std::size_t i = 0; i < rank.steps.size(); ++i, ++next) {
      add_new(counted[next], seen);
      of_rank.push_back({counted[next].sum, healths[next]});
    }
  }
  return facts;
}

}  // namespace sonde
