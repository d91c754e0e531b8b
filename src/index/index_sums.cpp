#include "index/index_sums.h"

#include <sys/stat.h>

#include <algorithm>

#include "base/parallel.h"
#include "files/packed_path.h"
#include "measure/health.h"

namespace sonde {
namespace {

struct CountedStep {
  StepSum sum;
  std::vector<DiskFile> files;  // each once
};

const CatalogOp& op_of(const CatalogOp& op) { return op; }
const CatalogOp& op_of(const CatalogOp* op) { return *op; }

template <typename Ops>
CountedStep count_ops(const CatalogRank& rank, const Ops& ops) {
  CountedStep counted;
  DiskFiles seen;
  std::string_view last_file;  // of a container, which holds several tensors
  std::string path;
  for (const auto& each : ops) {
    const CatalogOp& op = op_of(each);
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
      if (stat_tensor(path, status) != 0) continue;
      const DiskFile file = {status.st_dev, status.st_ino, static_cast<std::uint64_t>(status.st_size)};
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

}  // namespace

StepSum StepCounter::count(const CatalogRank& rank, const std::vector<CatalogOp*>& ops) {
  CountedStep counted = count_ops(rank, ops);
  add_new(counted, seen_);
  return counted.sum;
}

StepSum StepCounter::count(const CatalogRank& rank, const std::vector<CatalogOp>& ops) {
  CountedStep counted = count_ops(rank, ops);
  add_new(counted, seen_);
  return counted.sum;
}

std::vector<std::vector<StepFacts>> step_facts(const Catalog& catalog) {
  std::vector<std::pair<const CatalogRank*, const CatalogStep*>> steps;
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) steps.emplace_back(&rank, &step);
  }
  std::vector<CountedStep> counted(steps.size());
  std::vector<StepHealth> healths(steps.size());
  Threads().for_each(steps.size(), [&](std::size_t i) {
    counted[i] = count_ops(*steps[i].first, steps[i].second->ops);
    healths[i] = health_of(*steps[i].second);
  });
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
