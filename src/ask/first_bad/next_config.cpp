#include "ask/first_bad/next_config.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>

#include "read/catalog/dump_tree.h"

namespace sonde {
namespace {

using Json = nlohmann::ordered_json;

const CatalogRank& rank_of_finding(const Catalog& catalog, const Finding& finding) {
  const auto found = std::ranges::find_if(
      catalog.ranks, [&](const CatalogRank& rank) { return rank.rank == finding.rank && rank.dump == finding.dump; });
  return found == catalog.ranks.end() ? catalog.ranks.front() : *found;
}

// The names of directories in paths that MindSpore allows.
std::string allowed(std::string text) {
  for (char& c : text) {
    const bool fine = std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.' || c == '/';
    if (!fine) c = '_';
  }
  return text;
}

std::string net_name_of(const CatalogRank& rank) {
  for (const CatalogRun& run : rank.runs) {
    if (!run.net_name.empty()) return run.net_name;
  }
  return "Net";
}

// Full names if the dump has them; for names that only this dump's tool gives, the type.
Json kernels_of(const FirstBad& report, const CatalogRank& rank) {
  Json kernels = Json::array();
  for (const std::string& name : report.suspects) {
    std::string kernel = name;
    if (name.find('/') == std::string::npos) {
      for (const CatalogStep& step : rank.steps) {
        if (const CatalogOp* op = find_op(step, name)) {
          kernel = op->op_type;
          break;
        }
      }
    }
    if (std::ranges::find(kernels, Json(kernel)) == kernels.end()) kernels.push_back(kernel);
  }
  return kernels;
}

}  // namespace

std::string next_config(const Catalog& catalog, const FirstBad& report) {
  if (report.findings.empty()) return "";
  const Finding& first = report.findings.front();
  const CatalogRank& rank = rank_of_finding(catalog, first);
  const std::uint64_t number = first.step;
  const std::string steps =
      number > 0 ? std::to_string(number - 1) + "|" + std::to_string(number) : std::to_string(number);
  Json devices = Json::array();
  for (std::uint32_t device = 0; device < 8; ++device) devices.push_back(device);
  std::error_code ignored;
  const std::filesystem::path dump = rank_of(rank.directory).dump;
  const Json json = {{"common_dump_settings",
                      {{"op_debug_mode", 0},
                       {"dump_mode", 1},
                       {"path", allowed((dump.parent_path() / (dump.filename().string() + "_next")).string())},
                       {"net_name", allowed(net_name_of(rank))},
                       {"iteration", steps},
                       {"saved_data", "full"},
                       {"input_output", 0},
                       {"kernels", kernels_of(report, rank)},
                       {"support_device", devices},
                       {"statistic_category",
                        {"max", "min", "avg", "l2norm", "count", "nan count", "negative inf count",
                         "positive inf count", "zero count"}}}},
                     {"e2e_dump_settings", {{"enable", true}, {"trans_flag", true}}},
                     {"sonde_settings", {{"reread", true}}}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace sonde
