#include "face/report/watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "ask/watch/watchpoints.h"
#include "dump.h"
#include "engine.h"
#include "face/report/catalog_text.h"
#include "face/report/page_link.h"
#include "face/report/text.h"
#include "read/catalog/op_matchers.h"
#include "verbs.h"

namespace sonde {
namespace {

// The common options of all conditions; empty, with the status set, if an option is invalid.
class Selection {
 public:
  std::optional<WatchSelection> make(Catalog& catalog, const WatchCommand& options, int& status) {
    std::optional<std::vector<SelectedStep>> steps = select_steps(catalog, options, status);
    if (!steps) return std::nullopt;
    status = kBadUsage;
    for (const SelectedStep& step : *steps) {
      steps_.insert(step.step);
      if (!options.select.empty()) ops_.insert(step.ops.begin(), step.ops.end());
    }
    has_patterns_ = !options.select.empty();
    if (!options.op.empty()) {
      Result<NameMatcher> names = NameMatcher::create(options.op);
      if (!names) {
        print_error("--op " + names.error().message);
        return std::nullopt;
      }
      names_ = std::move(*names);
    }
    if (!options.source.empty()) source_.emplace(options.source, SourceMatcher::In::place_and_code);
    WatchSelection selection;
    selection.category = *category_of_word(options.category.empty() ? "tensor" : options.category);
    selection.sides = *sides_of_word(options.side);
    selection.takes = [this](const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op) {
      return takes(rank, step, op);
    };
    status = kNothingFound;
    return selection;
  }

 private:
  bool takes(const CatalogRank& rank, const CatalogStep& step, const CatalogOp& op) {
    if (!steps_.contains(&step)) return false;
    if (has_patterns_ && !ops_.contains(&op)) return false;
    if (names_ && !names_->matches(op)) return false;
    return !source_ || source_->matches(rank, op);
  }

  std::unordered_set<const CatalogStep*> steps_;
  bool has_patterns_ = false;
  std::unordered_set<const CatalogOp*> ops_;
  std::optional<NameMatcher> names_;
  std::optional<SourceMatcher> source_;
};

bool has_tensors(const std::vector<Watchpoint>& watchpoints) {
  return std::ranges::any_of(watchpoints, [](const Watchpoint& watchpoint) { return !watchpoint.tensors.empty(); });
}

// Empty if there is nothing to watch.
std::optional<std::vector<Watchpoint>> watchpoints_of(const Catalog& catalog,
                                                      const std::vector<WatchCondition>& conditions,
                                                      const WatchCommand& options, const WatchSelection& selection) {
  std::vector<std::string> notes;
  Result<std::vector<Watchpoint>> watchpoints =
      make_watchpoints(catalog, conditions, options.recommended, selection, notes);
  for (const std::string& note : notes) print_warning(note);
  if (!watchpoints) {
    print_error(watchpoints.error().message);
    return std::nullopt;
  }
  if (has_tensors(*watchpoints)) return std::move(*watchpoints);
  print_error("nothing to watch: no node that was chosen has a recorded " +
              std::string(options.side == "both" ? "tensor" : options.side) +
              (options.side == "output" ? "; --side input looks at inputs" : ""));
  return std::nullopt;
}

std::string link_of(const Catalog& catalog, const WatchHit& hit) {
  const CatalogRank& rank = catalog.ranks[hit.tensor.rank];
  const CatalogStep& step = rank.steps[hit.tensor.step];
  const CatalogOp& op = step.ops[hit.tensor.op];
  const CatalogTensor& tensor = op.tensors[hit.tensor.tensor];
  return link_text({false, rank_text(rank), step.id, op.op_name, tensor.is_input, tensor.slot});
}

int print_report(const Catalog& catalog, const std::vector<Watchpoint>& watchpoints, const WatchReport& report,
                 bool json, bool link) {
  add_unreadable(report.problems);
  const auto hits = static_cast<std::size_t>(std::ranges::count_if(report.hits, &WatchHit::hit));
  if (json) {
    Answer::get().add(answer_of(catalog, watchpoints, report));
    return hits > 0 ? kFinding : kNothingFound;
  }
  if (!print_text(hits_table(catalog, watchpoints, report, terminal_width()))) return kUnreadable;
  constexpr std::size_t kMostAtAGlance = 24;  // rows of a terminal
  if (hits > kMostAtAGlance) print_text("\n" + summary_table(catalog, watchpoints, report, terminal_width()));
  if (link && hits > 0) print_text(link_of(catalog, *std::ranges::find_if(report.hits, &WatchHit::hit)));
  print_notice(doubts_text(catalog, watchpoints, report));
  for (const std::string& note : report.notes) print_notice(printable(note) + "\n");
  print_notice(fmt::format("sonde: {} of {} in {}; {} read ({})\n", count_text(hits, "hit"),
                           count_text(watchpoints.size(), "condition"), count_text(report.tensors, "tensor"),
                           count_text(report.files, "file"), bytes_text(report.bytes)));
  return hits > 0 ? kFinding : kNothingFound;
}

int list_conditions(bool json) {
  if (json) Answer::get().add(conditions_answer());
  return json || print_text(conditions_table(terminal_width())) ? kNothingFound : kUnreadable;
}

}  // namespace

int watch(const WatchCommand& options) {
  if (options.list) return list_conditions(options.json);
  if (options.dump.empty()) {
    print_error("DUMP is missing: which dump? (--list prints the conditions)");
    return kBadUsage;
  }
  const Result<std::vector<WatchCondition>> conditions = parse_conditions(options.conditions);
  if (!conditions) return print_error(conditions.error(), kBadUsage);
  if (conditions->empty() && !options.recommended) {
    print_error("no condition: --condition NAME[:PARAMETER=NUMBER,…] or --recommended (--list prints the conditions)");
    return kBadUsage;
  }
  int status = kNothingFound;
  if (!index_ranks(options.dump, options.engine, status)) return status;
  std::optional<Catalog> catalog = open_dump(options, status);
  if (!catalog) return status;
  Selection chosen;
  std::optional<WatchSelection> selection = chosen.make(*catalog, options, status);
  if (!selection) return status;
  if (!any_recorded(*catalog)) {
    print_error("no value and no statistic of any tensor is in this dump");
    return kUnreadable;
  }
  const auto watchpoints = watchpoints_of(*catalog, *conditions, options, *selection);
  if (!watchpoints) return kBadUsage;
  WatchOptions how;
  how.threads = static_cast<unsigned>(options.threads);
  how.most_bytes = options.mem_limit << 20;
  how.error_on_no_value = options.error_on_no_value;
  const int found =
      print_report(*catalog, *watchpoints, check_watchpoints(*catalog, *watchpoints, how), options.json, options.link);
  warn_of_ranks(*catalog, options.rank);
  const std::optional<DumpPart> part = chosen_part(*catalog, options, status);
  const bool ended_early = part && warn_of_early_ends(*catalog, *part);
  return ended_early && found == kNothingFound ? kUnreadable : found;
}

}  // namespace sonde
