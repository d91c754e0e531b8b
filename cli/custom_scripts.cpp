#include "custom_scripts.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <regex>
#include <string>

#include "child.h"
#include "ground/base/json.h"
#include "ground/files/scratch.h"
#include "python_programs.h"

namespace sonde {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostScripts = 1000;
constexpr int kDeepest = 50;
constexpr std::uintmax_t kLongestScript = 1 << 20;

class Scripts : public CustomConversions {
 public:
  Status find(const fs::path& directory);

  bool has(Format from, Format to) const override { return scripts_.contains({from, to}); }
  fs::path scratch_file() override { return scratch_.path() / fmt::format("{}.npy", next_++); }
  Result<fs::path> run(const Request& request) override;

 private:
  Scratch scratch_;
  fs::path helper_;
  std::map<std::pair<Format, Format>, fs::path> scripts_;
  std::atomic<std::uint64_t> next_ = 0;
  std::mutex mutex_;  // a child takes over the signals of this process
};

Status Scripts::find(const fs::path& directory) {
  const fs::path root = directory / "format_convert";
  const auto refuse = [&](const std::string& why) {
    return Error{ErrorCode::invalid_argument, fmt::format("cannot use the scripts in '{}': {}", root.string(), why)};
  };
  std::error_code problem;
  fs::recursive_directory_iterator entries(root, problem);
  if (problem) return refuse(problem.message());
  const std::regex named("convert_([A-Z0-9_a-z]+)_to_([A-Z0-9_a-z]+)\\.py");
  for (const fs::directory_entry& entry : entries) {
    if (entries.depth() > kDeepest) return refuse("directories are nested too deep");
    std::smatch match;
    const std::string name = entry.path().filename();
    if (!entry.is_regular_file(problem) || !std::regex_match(name, match, named)) continue;
    if (entry.file_size(problem) > kLongestScript) return refuse(name + " is longer than 1 MiB");
    const auto from = format_from_name(match[1].str()), to = format_from_name(match[2].str());
    if (from && to) scripts_[{*from, *to}] = entry.path();
    if (scripts_.size() > kMostScripts) return refuse("there are more than 1000 scripts");
  }
  helper_ = scratch_.path() / "run_script.py";
  std::ofstream(helper_) << kConvertFormat;
  return {};
}

Result<fs::path> Scripts::run(const Request& request) {
  const fs::path& script = scripts_.at({request.from, request.to});
  fs::path result = scratch_file();
  Json words = {{"from", request.from_shape}, {"to", request.to_shape}};
  if (script.filename().string().find("to_FRACTAL_Z") != std::string::npos) words["group"] = request.groups;
  const std::scoped_lock lock(mutex_);
  // Any Python 3 must do, so there is no -P: Python's path then contains the scratch directory with the helper.
  const Result<ChildEnd> end = run_child(
      {"python3", helper_.string(), script.string(), request.elements.string(), result.string(), text_of_json(words)},
      python_setting());
  if (!end) return end.error();
  if (end->exit_code == 0 && fs::exists(result)) return result;
  return Error{ErrorCode::invalid_argument,
               fmt::format("the script '{}' ended with status {}", script.string(), end->exit_code)};
}

}  // namespace

Result<std::unique_ptr<CustomConversions>> custom_scripts(const fs::path& directory) {
  auto scripts = std::make_unique<Scripts>();
  if (Status found = scripts->find(directory); !found) return found.error();
  return std::unique_ptr<CustomConversions>(std::move(scripts));
}

}  // namespace sonde
