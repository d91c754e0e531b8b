#include "read/catalog/run_history.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <sstream>
#include <string>

#include "dump/layout/side_names.h"
#include "ground/files/mapped_file.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kLongestHistory = 64 << 20;  // bytes

// One number per line, in its first column; empty if there is no such file.
std::optional<std::vector<std::uint64_t>> read_history(const fs::path& path) {
  const Result<std::string> text = read_whole_file(path, kLongestHistory);
  if (!text) return std::nullopt;
  std::istringstream file(*text);
  std::vector<std::uint64_t> iterations;
  std::string line;
  while (std::getline(file, line)) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), number);
    if (error == std::errc()) iterations.push_back(number);
  }
  if (iterations.empty()) return std::nullopt;
  return iterations;
}

}  // namespace

const std::vector<std::uint64_t>* RunHistory::iterations_of(std::uint32_t graph) {
  const auto [at, is_new] = by_graph_.try_emplace(graph);
  if (is_new) {
    for (const fs::path& place : {rank_.directory, rank_.metadata}) {
      if (!at->second) at->second = read_history(place / kOrderDirectory / history_name(graph));
    }
  }
  return at->second ? &*at->second : nullptr;
}

std::optional<std::uint32_t> RunHistory::find(StepId id) const {
  for (std::uint32_t i = 0; i < rank_.steps.size(); ++i) {
    if (rank_.steps[i].id == id) return i;
  }
  return std::nullopt;
}

PreviousStep RunHistory::before(std::uint32_t step) {
  const CatalogStep& current = rank_.steps[step];
  PreviousStep previous;
  if (rank_.has_journal) {
    for (std::uint32_t i = step; i-- > 0;) {
      const CatalogStep& earlier = rank_.steps[i];
      if (earlier.run != current.run || earlier.id.graph != current.id.graph) continue;
      previous.step = i;
      previous.number = earlier.id.number;
      return previous;
    }
    return previous;
  }
  if (const std::vector<std::uint64_t>* history = iterations_of(current.id.graph)) {
    // A second run into the same directory appends its steps: the last occurrence counts, as for the files.
    const auto last = std::find(history->rbegin(), history->rend(), current.id.number);
    if (last != history->rend()) {
      if (last + 1 == history->rend()) return previous;
      previous.number = *(last + 1);
      previous.step = find({current.id.graph, *previous.number});
      return previous;
    }
  }
  previous.from_history = false;
  for (std::uint32_t i = 0; i < rank_.steps.size(); ++i) {
    const StepId id = rank_.steps[i].id;
    if (id.graph != current.id.graph || id.number >= current.id.number) continue;
    if (previous.number && *previous.number >= id.number) continue;
    previous.step = i;
    previous.number = id.number;
  }
  return previous;
}

}  // namespace sonde
