#include "index/index_sums.h"

#include <sys/stat.h>

#include <algorithm>
#include <unordered_set>

#include "base/parallel.h"

namespace sonde {
namespace {

// A file on disk, whatever its names.
struct DiskFile {
  std::uint64_t device = 0, inode = 0, bytes = 0;
  friend bool operator==(const DiskFile& a, const DiskFile& b) { return a.device == b.device && a.inode == b.inode; }
};
struct DiskFileHash {
  std::size_t operator()(const DiskFile& file) const { return file.inode * 0x9E3779B97F4A7C15ULL ^ file.device; }
};
using DiskFiles = std::unordered_set<DiskFile, DiskFileHash>;

struct CountedStep {
  StepSum sum;
  std::vector<DiskFile> files;  // each once
};

CountedStep count(const CatalogRank& rank, const CatalogStep& step) {
  CountedStep counted;
  DiskFiles seen;
  std::string_view last_file;  // of a container, which holds several tensors
  std::string path;
  for (const CatalogOp& op : step.ops) {
    (op.is_parameter ? counted.sum.parameters : counted.sum.ops) += 1;
    for (const CatalogTensor& tensor : op.tensors) {
      if (!tensor.recorded()) continue;
      ++counted.sum.tensors;
      if (tensor.file.empty()) continue;
      if (tensor.file == last_file) continue;
      ++counted.sum.files;
      last_file = tensor.file;
      path.assign(rank.directory.native()).append("/").append(tensor.file);
      struct stat status {};
      if (::stat(path.c_str(), &status) != 0) continue;
      const DiskFile file = {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size)};
      if (!seen.insert(file).second) continue;
      counted.sum.bytes += file.bytes;
      counted.files.push_back(file);
    }
  }
  return counted;
}

}  // namespace

std::vector<std::vector<StepSum>> step_sums(const Catalog& catalog) {
  std::vector<std::pair<const CatalogRank*, const CatalogStep*>> steps;
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) steps.emplace_back(&rank, &step);
  }
  std::vector<CountedStep> counted(steps.size());
  Threads().for_each(steps.size(), [&](std::size_t i) { counted[i] = count(*steps[i].first, *steps[i].second); });
  DiskFiles seen;
  std::vector<std::vector<StepSum>> sums;
  std::size_t next = 0;
  for (const CatalogRank& rank : catalog.ranks) {
    std::vector<StepSum>& of_rank = sums.emplace_back();
    for (std::size_t i = 0; i < rank.steps.size(); ++i, ++next) {
      CountedStep& step = counted[next];
      for (const DiskFile& file : step.files) {
        if (seen.insert(file).second) step.sum.new_bytes += file.bytes;
      }
      of_rank.push_back(step.sum);
    }
  }
  return sums;
}

}  // namespace sonde
