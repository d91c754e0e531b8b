#include "catalog/find_dumps.h"

#include <algorithm>

#include "catalog/dump_tree.h"
#include "formats/file_names.h"
#include "formats/free_names.h"
#include "layout/side_names.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestTree = 12;                 // levels below the path that was given
constexpr std::size_t kMostDirectories = 20000;  // searched without finding anything

bool is_beside_steps(const std::string& name) {
  return name.starts_with('.') || name == kGraphsDirectory || name == kOrderDirectory || name == kConstantsDirectory;
}

bool is_step_number(const std::string& name) {
  return name.find_first_not_of("0123456789") == std::string::npos && !is_time(name);
}

// The kinds of dump that the files of one directory belong to.
struct Kinds {
  bool is_step = false, is_msprobe = false, is_loose = false, is_distinct = false;
};

class Finder {
 public:
  explicit Finder(bool trust_journals) : trust_journals_(trust_journals) {}

  void look(const fs::path& directory, int depth) {
    bool shared = false;  // o2: directories with a number as name are steps of it; the rest belongs to another
    if (trust_journals_) {
      const std::vector<fs::path> journals = journals_of(directory);
      for (const fs::path& metadata : journals) found_.journals.push_back({directory, metadata});
      shared = !journals.empty() && journals.front().parent_path() != directory;
      if (!journals.empty() && !shared) return;
    }
    if (found_.directories >= kMostDirectories && found_.empty()) return;
    ++found_.directories;
    std::vector<fs::path> below;
    const Kinds kinds = look_at_files(directory, shared, below);
    if (kinds.is_step) found_.steps.push_back(directory);
    if (kinds.is_msprobe) {
      found_.msprobe.push_back(directory);
      std::erase_if(below, [](const fs::path& path) { return path.filename() == "dump_tensor_data"; });
    }
    if (kinds.is_loose && !kinds.is_step) found_.loose.push_back(directory);
    if (kinds.is_loose && !kinds.is_step && kinds.is_distinct) distinct_.push_back(directory);
    std::ranges::sort(below);
    for (const fs::path& child : below) {
      if (depth < kDeepestTree) look(child, depth + 1);
    }
  }

  Findings take() {
    // Beside a dump, a .pt with a free name is a checkpoint or something else.
    if (!found_.journals.empty() || !found_.steps.empty() || !found_.msprobe.empty()) found_.loose = distinct_;
    return std::move(found_);
  }

 private:
  Kinds look_at_files(const fs::path& directory, bool shared, std::vector<fs::path>& below) {
    Kinds kinds;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
      std::error_code ignored;
      if (at->is_directory(ignored)) {
        const std::string name = at->path().filename();
        if (at->is_symlink(ignored)) {
          found_.problems.push_back({at->path(), "a symbolic link to a directory; it is not followed"});
        } else {
          if (name == kConstantsDirectory) found_.constants.push_back(at->path());
          if (!is_beside_steps(name) && !(shared && is_step_number(name))) below.push_back(at->path());
        }
        continue;
      }
      ++found_.files;
      const std::string& path = at->path().native();
      // Of a step only names of msprobe's records are of further interest.
      if (kinds.is_step && !path.ends_with("dump.json") && !path.ends_with("debug.json")) continue;
      const std::string name = at->path().filename();
      if (found_.first.empty()) found_.first = name;
      add_file(at->path(), name, kinds);
    }
    if (error) {
      found_.problems.push_back({directory, "cannot look into it: " + error.message()});
      if (found_.unreadable.empty()) found_.unreadable = "'" + directory.string() + "': " + error.message();
    }
    return kinds;
  }

  void add_file(const fs::path& path, const std::string& name, Kinds& kinds) {
    if (name == "dump.json" || name == "debug.json") {
      kinds.is_msprobe = true;
      return;
    }
    if (!kinds.is_step) kinds.is_step = is_of_a_step(path, name);
    if (kinds.is_step) return;
    const bool is_free = is_free_tensor_name(name);
    if (!is_free && !(name.ends_with(".bin") && is_atb_file(path))) return;
    kinds.is_loose = true;
    kinds.is_distinct = kinds.is_distinct || !is_free || name.ends_with(".npy") || has_free_grammar(name);
  }

  bool trust_journals_;
  Findings found_;
  std::vector<fs::path> distinct_;
};

}  // namespace

Findings find_dumps(const fs::path& root, bool trust_journals) {
  Finder finder(trust_journals);
  finder.look(root, 0);
  return finder.take();
}

}  // namespace sonde
