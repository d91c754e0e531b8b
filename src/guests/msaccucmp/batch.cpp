// -f is a directory of rule files: compares every model of it that was dumped.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "guests/msaccucmp/comparison.h"

namespace sonde::msaccucmp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTree = "dump_path/<time>/<device>/<model>/<model_id>/<step>";

Outcome<std::vector<fs::path>> entries(const fs::path& directory) {
  std::vector<fs::path> paths;
  std::error_code problem;
  for (fs::directory_iterator entry(directory, problem), end; !problem && entry != end; entry.increment(problem)) {
    paths.push_back(entry->path());
  }
  if (problem) {
    return Failure{Code::invalid_path,
                   fmt::format("cannot list '{}': {}; expected {}", directory.string(), problem.message(), kTree)};
  }
  std::ranges::sort(paths);
  return paths;
}

// For each model the directories of its steps to compare: the last of each model id, in text order.
using StepsByModel = std::map<std::string, std::vector<fs::path>>;

Outcome<StepsByModel> find_steps(const fs::path& dump) {
  StepsByModel steps;
  const auto devices = entries(dump);
  if (!devices) return devices.failure();
  for (const fs::path& device : *devices) {
    const auto models = entries(device);
    if (!models) return models.failure();
    for (const fs::path& model : *models) {
      const auto ids = entries(model);
      if (!ids) return ids.failure();
      for (const fs::path& id : *ids) {
        const auto found = entries(id);
        if (!found) return found.failure();
        if (!found->empty()) steps[model.filename().string()].push_back(found->back());
      }
    }
  }
  if (steps.empty()) return Failure{Code::invalid_path, fmt::format("'{}' is not {}", dump.string(), kTree)};
  return steps;
}

std::vector<std::string> numbers_in(const std::string& name) {
  std::vector<std::string> numbers;
  bool inside = false;
  for (const char c : name) {
    const bool is_digit = c >= '0' && c <= '9';
    if (is_digit && !inside) numbers.emplace_back();
    if (is_digit) numbers.back() += c;
    inside = is_digit;
  }
  return numbers;
}

// A rule file and the steps that it describes.
struct Match {
  fs::path rules;
  std::vector<fs::path> steps;
};

// The name of a model that was compiled twice contains another time, but the same last number.
Outcome<const std::vector<fs::path>*> similar_model(const std::string& graph, const StepsByModel& steps,
                                                    const Log& log) {
  const std::vector<std::string> wanted = numbers_in(graph);
  const std::vector<fs::path>* found = nullptr;
  for (const auto& [model, paths] : steps) {
    const std::vector<std::string> numbers = numbers_in(model);
    if (wanted.size() != 2 || numbers.size() != 2) {
      return Failure{Code::invalid_path, fmt::format("no dump of '{}' among the models, such as '{}'", graph, model)};
    }
    if (wanted[1] != numbers[1]) continue;
    log.warning(fmt::format("the rules of '{}' are taken for the dump of '{}': they have another time", graph, model));
    found = &paths;
  }
  return found;
}

Outcome<std::vector<Match>> match_models(const CompareOptions& options, const Log& log) {
  const auto files = entries(options.rules);
  if (!files) return files.failure();
  std::vector<std::pair<std::string, fs::path>> graphs;
  for (const fs::path& file : *files) {
    if (file.extension() != ".json") continue;
    const auto names = graph_names(file);
    if (!names) return names.failure();
    for (const std::string& name : *names) graphs.emplace_back(name, file);
  }
  if (graphs.empty()) {
    return Failure{Code::invalid_path, fmt::format("'{}' holds no rule files (.json)", options.rules)};
  }
  const Outcome<StepsByModel> steps = find_steps(options.left);
  if (!steps) return steps.failure();
  std::vector<Match> matches;
  for (const auto& [graph, file] : graphs) {
    const auto exact = steps->find(graph);
    const std::vector<fs::path>* paths = exact == steps->end() ? nullptr : &exact->second;
    if (paths == nullptr) {
      const auto similar = similar_model(graph, *steps, log);
      if (!similar) return similar.failure();
      paths = *similar;
    }
    if (paths == nullptr) continue;
    // A rule file with several graphs describes the last of them that was dumped.
    auto known = std::ranges::find(matches, file, &Match::rules);
    if (known == matches.end()) known = matches.insert(matches.end(), {file, {}});
    known->steps = *paths;
  }
  if (matches.empty()) {
    return Failure{Code::invalid_path,
                   fmt::format("no model in '{}' has rules in '{}'", options.left.string(), options.rules)};
  }
  return matches;
}

// "0_model_1_result_20260131120000.csv" for <device>/<model>/<model_id>/<step>.
std::string result_name(const fs::path& step) {
  const fs::path model = step.parent_path().parent_path();
  return fmt::format("{}_{}_{}_result_{}.csv", model.parent_path().filename().string(), model.filename().string(),
                     step.filename().string(), now_digits());
}

}  // namespace

Code compare_batch(const CompareOptions& options, const Log& log) {
  const auto fail = [&](Code code, const std::string& reason) {
    log.error(reason);
    return code;
  };
  if (options.single) return fail(Code::invalid_parameter, "-op is not possible while -f is a directory");
  std::error_code problem;
  const fs::path dump = fs::weakly_canonical(options.left, problem);
  if (!fs::is_directory(dump, problem)) {
    return fail(Code::invalid_path, fmt::format("'{}' is not a directory", options.left.string()));
  }
  const std::string name = dump.filename().string();
  if (name.empty() || name.find_first_not_of("0123456789") != std::string::npos) {
    return fail(Code::invalid_path, fmt::format("'{}' does not end in a time: expected {}", dump.string(), kTree));
  }
  CompareOptions one = options;
  one.left = dump;
  const Outcome<std::vector<Match>> matches = match_models(one, log);
  if (!matches) return fail(matches.failure().status, matches.failure().reason);
  Code status = Code::ok;
  for (const Match& match : *matches) {
    for (const fs::path& step : match.steps) {
      one.left = step;
      one.rules = match.rules.string();
      one.result_name = result_name(step);
      status = compare_directories(one, log);
    }
  }
  return status;
}

}  // namespace sonde::msaccucmp
