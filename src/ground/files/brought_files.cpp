#include "ground/files/brought_files.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <utility>
#include <vector>

#include "ground/base/mutex.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

struct Root {
  std::string path, name;
  FileSource source;
  Mutex mutex;
  std::set<std::string> listed GUARDED_BY(mutex), trees
      GUARDED_BY(mutex);  // directories that need not be asked for again
};

std::shared_mutex mutex;
// Never destroyed: threads may still read when the process ends.
std::vector<std::shared_ptr<Root>>& roots = *new std::vector<std::shared_ptr<Root>>;

bool is_below(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

std::shared_ptr<Root> root_of(const fs::path& path) {
  const std::shared_lock lock(mutex);
  const auto found = std::ranges::find_if(roots, [&](const auto& root) { return is_below(path.native(), root->path); });
  return found == roots.end() ? nullptr : *found;
}

bool is_in_tree(Root& root, const fs::path& directory) {
  const Lock lock(root.mutex);
  return std::ranges::any_of(root.trees, [&](const std::string& tree) { return is_below(directory.native(), tree); });
}

bool is_listed(Root& root, const fs::path& directory) {
  {
    const Lock lock(root.mutex);
    if (root.listed.contains(directory)) return true;
  }
  return is_in_tree(root, directory);
}

bool is_here(const fs::path& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return false;
  return !S_ISREG(status.st_mode) || (status.st_mode & 0777) != kPlaceholderMode;
}

Status ask(const FileRequest& request) {
  const std::shared_ptr<Root> root = root_of(request.path);
  return root ? root->source(request) : Status();
}

}  // namespace

namespace brought {

std::atomic<bool> has_sources{false};

bool is_below_root(const fs::path& path) { return root_of(path) != nullptr; }

}  // namespace brought

void add_file_source(const fs::path& root, const std::string& name, FileSource source) {
  auto added = std::make_shared<Root>();
  added->path = root.native();
  added->name = name;
  added->source = std::move(source);
  const std::lock_guard lock(mutex);
  std::erase_if(roots, [&](const auto& known) { return known->path == added->path; });
  roots.push_back(std::move(added));
  brought::has_sources = true;
}

Status bring_file(const fs::path& path) {
  if (!is_brought(path) || is_here(path)) return {};
  return ask({FileNeed::file, path});
}

Result<fs::path> bring_part(const PackedPath& packed) {
  const fs::path pack(packed.pack);
  if (!is_brought(pack) || is_here(pack)) return fs::path();
  const fs::path part = pack.parent_path() / ("." + pack.filename().string()) /
                        (std::to_string(packed.offset) + "-" + std::to_string(packed.bytes));
  if (Status done = ask({FileNeed::part, pack, packed.offset, packed.bytes}); !done) return done.error();
  return part;
}

Status bring_names(const fs::path& directory) {
  if (!is_brought(directory)) return {};
  const std::shared_ptr<Root> root = root_of(directory);
  if (is_listed(*root, directory)) return {};
  if (Status done = root->source({FileNeed::directory, directory}); !done) return done;
  const Lock lock(root->mutex);
  root->listed.insert(directory);
  return {};
}

Status bring_tree(const fs::path& directory) {
  if (!is_brought(directory)) return {};
  const std::shared_ptr<Root> root = root_of(directory);
  if (is_in_tree(*root, directory)) return {};
  if (Status done = root->source({FileNeed::tree, directory}); !done) return done;
  const Lock lock(root->mutex);
  root->trees.insert(directory);
  return {};
}

std::string with_source_names(std::string text) {
  if (!brought::has_sources.load(std::memory_order_relaxed)) return text;
  const std::shared_lock lock(mutex);
  for (const std::shared_ptr<Root>& root : roots) {
    if (root->name.empty()) continue;
    for (std::size_t at = text.find(root->path); at != std::string::npos;
         at = text.find(root->path, at + root->name.size())) {
      text.replace(at, root->path.size(), root->name);
    }
  }
  return text;
}

}  // namespace sonde
