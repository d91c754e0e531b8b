#include "ask/first_bad/next_commands.h"

#include <fmt/format.h>

#include <optional>

#include "ask/finding/finding.h"
#include "ground/base/text.h"

namespace sonde {
namespace {

bool has_values(const Finding& finding) { return !finding.tensor.tensor_file.empty(); }

// Null: the finding is of no rank of the catalog.
const CatalogRank* rank_of(const Catalog& catalog, const Finding& finding) {
  for (const CatalogRank& rank : catalog.ranks) {
    if (rank.rank == finding.rank && rank.dump == finding.dump) return &rank;
  }
  return nullptr;
}

// The command that was recorded: "python train.py". Empty: the dump does not say.
std::string program_of(const CatalogRank* rank) {
  return rank == nullptr || rank->runs.empty() ? "" : rank->runs.back().command;
}

}  // namespace

std::vector<NextCommand> next_commands(const Catalog& catalog, const FirstBad& report) {
  if (report.findings.empty()) return {};
  const Finding& first = report.findings.front();
  const std::string dump = shell_word(catalog.path.string());
  const CatalogRank* rank = rank_of(catalog, first);
  const std::string place = rank == nullptr ? "" : place_options(*rank, step_of(first), catalog.ranks.size() > 1);
  const std::string name = shell_word(first.op_name.empty() ? first.tensor.parameter : first.op_name);
  std::vector<NextCommand> all;
  if (has_values(first))
    all.push_back(next_command(NextKind::values, fmt::format("sonde show {} {}{}", dump, name, place)));
  if (!first.op_name.empty()) {
    all.push_back(next_command(NextKind::readers, fmt::format("sonde graph {} {}{}", dump, name, place)));
  }
  if (!has_values(first) || !first.limits.empty()) {
    const std::string program = program_of(rank);
    all.push_back(
        next_command(NextKind::recording,
                     fmt::format("sonde first-bad {} --next-config next.json; sonde run --config next.json -- {}", dump,
                                 program.empty() ? "COMMAND" : program)));
  }
  all.push_back(next_command(NextKind::browser, fmt::format("sonde serve {} --open", dump)));
  return all;
}

}  // namespace sonde
