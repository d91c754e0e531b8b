#include "ask/first_bad/next_config.h"

#include <algorithm>
#include <cctype>

#include "read/catalog/dump_tree.h"
#include "sonde/configuration.h"

namespace sonde {
namespace {

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

// The operators of the modules, as one expression: a summary knows no operators.
std::vector<std::string> modules_of(const FirstBad& report) {
  std::string modules;
  for (const std::string& name : report.suspects) {
    if (name.find('/') == std::string::npos) continue;  // a gradient
    if (!modules.empty()) modules += '|';
    for (const char c : name) {
      if (std::ispunct(static_cast<unsigned char>(c)) != 0 && c != '/' && c != '-' && c != '_') modules += '\\';
      modules += c;
    }
  }
  if (modules.empty()) return {};
  return {"name-regex(.*(" + modules + ")/.*)"};
}

// Full names if the dump has them; for names that only this dump's tool gives, the type.
std::vector<std::string> kernels_of(const FirstBad& report, const CatalogRank& rank) {
  if (rank.kind == DumpKind::summary) return modules_of(report);
  std::vector<std::string> kernels;
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
    if (std::ranges::find(kernels, kernel) == kernels.end()) kernels.push_back(kernel);
  }
  return kernels;
}

}  // namespace

std::string next_config(const Catalog& catalog, const FirstBad& report) {
  if (report.findings.empty()) return "";
  const Finding& first = report.findings.front();
  const CatalogRank& rank = rank_of_finding(catalog, first);
  const std::uint64_t number = first.step;
  const std::filesystem::path dump = rank_of(rank.directory).dump;
  Configuration next;
  next.path = allowed((dump.parent_path() / (dump.filename().string() + "_next")).string());
  next.net_name = allowed(net_name_of(rank));
  next.iteration = number > 0 ? std::to_string(number - 1) + "|" + std::to_string(number) : std::to_string(number);
  next.saved_data = "full";
  next.kernels = kernels_of(report, rank);
  next.statistics = {
      "max", "min", "avg", "l2norm", "count", "nan count", "negative inf count", "positive inf count", "zero count"};
  next.reread = true;
  return text_of(next);
}

}  // namespace sonde
