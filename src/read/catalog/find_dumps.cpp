#include "read/catalog/find_dumps.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "dump/formats/free_names.h"
#include "dump/layout/side_names.h"
#include "dump/summary/summary_files.h"
#include "ground/base/parallel.h"
#include "ground/files/brought_files.h"
#include "ground/files/directory.h"
#include "read/catalog/dump_tree.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr int kDeepestTree = 12;                 // levels below the path that was given
constexpr std::size_t kMostDirectories = 20000;  // searched without finding anything
constexpr std::size_t kReadAhead = 64;           // directories side by side that are read before they are visited
constexpr std::size_t kFewDirectories = 4;       // not worth threads

bool has_side_files(const std::string& name) { return name == kGraphsDirectory || name == kOrderDirectory; }

bool is_beside_steps(const std::string& name) { return name.starts_with('.') || name == kConstantsDirectory; }

bool is_step_number(const std::string& name) {
  return name.find_first_not_of("0123456789") == std::string::npos && !is_time(name);
}

// The kinds of dump that the files of one directory belong to.
struct Kinds {
  bool is_step = false, is_msprobe = false, is_loose = false, is_distinct = false, is_summary = false;
};

// One directory, without those below it.
struct Scan {
  std::vector<fs::path> journals;  // directories .dump_metadata
  bool is_shared = false;          // o2: directories with a number as name are steps of it; the rest belongs to another
  Kinds kinds;
  std::vector<fs::path> below, constants;
  std::vector<CatalogProblem> problems;
  std::size_t files = 0;
  std::string first, unreadable;

  bool is_of_journal() const { return !journals.empty() && !is_shared; }
};

void add_file(const fs::path& path, const std::string& name, Kinds& kinds) {
  if (name == "dump.json" || name == "debug.json") {
    kinds.is_msprobe = true;
    return;
  }
  if (name == kSummaryRows || name == kSummaryEvents) {
    kinds.is_summary = true;
    return;
  }
  if (!kinds.is_step) kinds.is_step = is_of_a_step(path, name);
  if (kinds.is_step) return;
  const bool is_free = is_free_tensor_name(name);
  if (!is_free && !(name.ends_with(".bin") && is_atb_file(path))) return;
  kinds.is_loose = true;
  kinds.is_distinct = kinds.is_distinct || !is_free || name.ends_with(".npy") || has_free_grammar(name);
}

// `is_beside`: in a directory of graphs or orders. A net may have its name: its directories of graphs are numbers.
void add_directory(const fs::path& path, bool is_link, bool is_beside, Scan& scan) {
  const std::string name = path.filename();
  if (is_beside && !is_step_number(name)) return;
  if (is_link) {
    scan.problems.push_back({path, "a symbolic link to a directory; it is not followed"});
    return;
  }
  if (name == kConstantsDirectory) scan.constants.push_back(path);
  if (!is_beside_steps(name) && !(scan.is_shared && is_step_number(name))) scan.below.push_back(path);
}

void scan_files(const fs::path& directory, bool is_beside, Scan& scan) {
  if (Status brought = bring_names(directory); !brought) {
    scan.problems.push_back({directory, "cannot look into it: " + brought.error().message});
    scan.unreadable = "'" + directory.string() + "': " + brought.error().message;
    return;
  }
  const std::error_code error = for_each_entry(directory, [&](std::string_view entry, fs::file_type type) {
    std::error_code ignored;
    const bool is_link = type == fs::file_type::symlink;
    if (type == fs::file_type::directory || (is_link && fs::is_directory(directory / entry, ignored))) {
      add_directory(directory / entry, is_link, is_beside, scan);
      return;
    }
    if (is_beside) return;
    ++scan.files;
    // Of a step only names of msprobe's records are of further interest.
    if (scan.kinds.is_step && !entry.ends_with("dump.json") && !entry.ends_with("debug.json")) return;
    const std::string name(entry);
    if (scan.first.empty()) scan.first = name;
    add_file(directory / name, name, scan.kinds);
  });
  if (!error) return;
  scan.problems.push_back({directory, "cannot look into it: " + error.message()});
  scan.unreadable = "'" + directory.string() + "': " + error.message();
}

Scan scan_of(const fs::path& directory, bool trust_journals, bool is_root) {
  Scan scan;
  if (trust_journals) scan.journals = journals_of(directory);
  scan.is_shared = !scan.journals.empty() && scan.journals.front().parent_path() != directory;
  if (scan.is_of_journal()) return scan;
  scan_files(directory, !is_root && has_side_files(directory.filename()), scan);
  if (scan.kinds.is_msprobe) {
    std::erase_if(scan.below, [](const fs::path& path) { return path.filename() == "dump_tensor_data"; });
  }
  std::ranges::sort(scan.below);
  return scan;
}

class Finder {
 public:
  explicit Finder(bool trust_journals) : trust_journals_(trust_journals) {}

  void look(const fs::path& root) { visit(root, scan_of(root, trust_journals_, true), 0); }

  Findings take() {
    // Beside a dump, a .pt with a free name is a checkpoint or something else.
    if (!found_.journals.empty() || !found_.steps.empty() || !found_.msprobe.empty() || !found_.summaries.empty())
      found_.loose = distinct_;
    return std::move(found_);
  }

 private:
  bool is_hopeless() const { return found_.directories >= kMostDirectories && found_.empty(); }

  // The order of the visits is that of the paths, however many threads read the directories.
  void visit(const fs::path& directory, Scan scan, int depth) {
    for (const fs::path& metadata : scan.journals) found_.journals.push_back({directory, metadata});
    if (scan.is_of_journal() || is_hopeless()) return;
    ++found_.directories;
    found_.files += scan.files;
    if (found_.first.empty()) found_.first = scan.first;
    if (found_.unreadable.empty()) found_.unreadable = scan.unreadable;
    std::ranges::move(scan.problems, std::back_inserter(found_.problems));
    std::ranges::move(scan.constants, std::back_inserter(found_.constants));
    const bool is_loose = scan.kinds.is_loose && !scan.kinds.is_step;
    if (scan.kinds.is_step) found_.steps.push_back(directory);
    if (scan.kinds.is_msprobe) found_.msprobe.push_back(directory);
    if (scan.kinds.is_summary) found_.summaries.push_back(directory);
    if (is_loose) found_.loose.push_back(directory);
    if (is_loose && scan.kinds.is_distinct) distinct_.push_back(directory);
    if (depth < kDeepestTree) visit_below(scan.below, depth + 1);
  }

  void visit_below(const std::vector<fs::path>& below, int depth) {
    for (std::size_t first = 0; first < below.size() && !is_hopeless(); first += kReadAhead) {
      std::vector<Scan> scans(std::min(kReadAhead, below.size() - first));
      const Threads threads(scans.size() < kFewDirectories ? 1 : 0);
      threads.for_each(scans.size(),
                       [&](std::size_t i) { scans[i] = scan_of(below[first + i], trust_journals_, false); });
      for (std::size_t i = 0; i < scans.size(); ++i) visit(below[first + i], std::move(scans[i]), depth);
    }
  }

  bool trust_journals_;
  Findings found_;
  std::vector<fs::path> distinct_;
};

}  // namespace

Findings find_dumps(const fs::path& root, bool trust_journals) {
  Finder finder(trust_journals);
  finder.look(root);
  return finder.take();
}

}  // namespace sonde
