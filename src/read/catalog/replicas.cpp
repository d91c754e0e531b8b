#include "read/catalog/replicas.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <map>
#include <mutex>
#include <utility>

#include "dump/layout/side_names.h"
#include "dump/run_files/replica_rows.h"
#include "ground/base/parse_number.h"
#include "ground/files/brought_files.h"
#include "ground/files/mapped_file.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostTables = 64;

std::string place_key(StepId step, std::string_view op_name, std::string_view slot) {
  return fmt::format("{} {} {} {}", step.graph, step.number, op_name, slot);
}

struct Known {
  std::int64_t size = -1, seconds = 0, nanoseconds = 0;
  std::shared_ptr<const ReplicaTable> table;
};

}  // namespace

std::optional<std::uint32_t> writer_of(std::string_view skipped) {
  std::uint32_t rank = 0;
  if (!skipped.starts_with(kReplica) || !parse_number(skipped.substr(kReplica.size()), rank)) return std::nullopt;
  return rank;
}

bool is_elsewhere(const CatalogTensor& tensor) {
  return tensor.file.starts_with('/') && tensor.skipped.starts_with(kReplica);
}

fs::path directory_beside(const fs::path& rank_directory, std::uint32_t rank) {
  std::error_code error;
  fs::path own = fs::absolute(rank_directory, error).lexically_normal();
  if (!own.has_filename()) own = own.parent_path();
  std::string name = own.filename().string();
  const std::size_t digits = name.find_last_not_of("0123456789") + 1;
  if (error || digits == name.size()) return {};
  return own.parent_path() / (name.substr(0, digits) + std::to_string(rank));
}

std::shared_ptr<const ReplicaTable> ReplicaTable::of(const fs::path& rank_directory) {
  static std::mutex mutex;
  static auto* const tables = new std::map<fs::path, Known>;  // leaked: other threads may outlive static destruction
  const fs::path path = replicas_in(rank_directory / kMetadataDirectory);
  if (is_brought(path) && !bring_file(path)) return nullptr;
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return nullptr;
  const std::lock_guard<std::mutex> guard(mutex);
  if (tables->size() >= kMostTables && !tables->contains(path)) tables->clear();
  Known& known = (*tables)[path];
  if (known.table != nullptr && known.size == status.st_size && known.seconds == status.st_mtim.tv_sec &&
      known.nanoseconds == status.st_mtim.tv_nsec) {
    return known.table;
  }
  const Result<std::string> text = read_whole_file(path);
  if (!text) return nullptr;
  auto made = std::make_shared<ReplicaTable>();
  made->directory_ = rank_directory;
  for (std::size_t begin = 0, end = 0; (end = text->find('\n', begin)) != std::string::npos; begin = end + 1) {
    std::optional<ReplicaRow> row = replica_row(std::string_view(*text).substr(begin, end - begin));
    if (!row) continue;
    made->places_.insert(place_key(row->step, row->op_name, row->slot));
    made->files_[row->content].push_back(std::move(row->file));
  }
  known = {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, std::move(made)};
  return known.table;
}

std::string ReplicaTable::file_of(const std::string& content) const {
  const auto found = files_.find(content);
  if (found == files_.end()) return {};
  for (const std::string& file : found->second) {
    const fs::path path = directory_ / file;
    struct stat status {};
    if (is_brought(path) || (::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode))) return path.string();
  }
  return {};
}

bool ReplicaTable::has_other(StepId step, std::string_view op_name, std::string_view slot) const {
  return places_.contains(place_key(step, op_name, slot));
}

std::string file_of_replica(const fs::path& rank_directory, std::string_view skipped, const std::string& content) {
  const std::optional<std::uint32_t> writer = writer_of(skipped);
  if (!writer) return {};
  const fs::path beside = directory_beside(rank_directory, *writer);
  const std::shared_ptr<const ReplicaTable> table = beside.empty() ? nullptr : ReplicaTable::of(beside);
  return table != nullptr ? table->file_of(content) : std::string();
}

void find_replicas(const fs::path& rank_directory, CatalogOp& op, TextPool& texts) {
  for (CatalogTensor& tensor : op.tensors) {
    if (!tensor.file.empty() || !tensor.skipped.starts_with(kReplica)) continue;
    const std::string content = content_key(tensor.md5, tensor.dtype, tensor.shape);
    const std::string file = file_of_replica(rank_directory, tensor.skipped, content);
    if (!file.empty()) tensor.file = texts.keep(file);
  }
}

void find_replicas(const fs::path& rank_directory, std::span<CatalogOp> ops, TextPool& texts) {
  for (CatalogOp& op : ops) find_replicas(rank_directory, op, texts);
}

void note_missing_replicas(Catalog& catalog) {
  for (const CatalogRank& rank : catalog.ranks) {
    std::map<std::uint32_t, std::size_t> missing;  // by writer
    for (const CatalogStep& step : rank.steps) {
      for (const CatalogOp& op : step.ops) {
        for (const CatalogTensor& tensor : op.tensors) {
          if (!tensor.file.empty() || !tensor.wanted) continue;
          if (const auto writer = writer_of(tensor.skipped)) ++missing[*writer];
        }
      }
    }
    for (const auto& [writer, count] : missing) {
      catalog.problems.push_back(
          {directory_beside(rank.directory, writer),
           fmt::format("{} values of rank {} are copies of those of rank {}, which are not here or not equal", count,
                       rank.rank, writer),
           false, ProblemKind::elsewhere});
    }
  }
}

}  // namespace sonde
