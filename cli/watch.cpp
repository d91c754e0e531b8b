#include "watch.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>

#include "catalog/step_graph.h"
#include "dump.h"
#include "report/text.h"
#include "report/watch.h"
#include "watch/watchpoints.h"

namespace sonde {
namespace {

struct WatchVerbOptions : DumpOptions {
  std::vector<std::string> conditions;
  bool recommended = false, list = false, error_on_no_value = false;
  std::string op, category, source, side = "output";
  unsigned threads = 0;
  std::uint64_t mem_limit = 0;  // MiB
};

// Compares the lines an op was called from with a piece of text: "train.py:49" or code.
class SourceMatcher {
 public:
  explicit SourceMatcher(std::string text) : text_(lower(std::move(text))) {}

  bool matches(const CatalogRank& rank, const CatalogOp& op) {
    const void* key = op.trace != nullptr ? static_cast<const void*>(op.trace) : op.source_file.data();
    if (key == nullptr) return false;
    const auto [at, is_new] = known_.try_emplace({key, op.line});
    if (!is_new) return at->second;
    SourceTexts& sources = sources_.try_emplace(&rank, sources_of(rank)).first->second;
    bool found = is_in(line_text(sources, std::string(op.source_file), op.line));
    for (std::size_t i = 0; op.trace != nullptr && i < op.trace->size() && !found; ++i) {
      found = is_in(line_text(sources, (*op.trace)[i].file, (*op.trace)[i].line));
    }
    return at->second = found;
  }

 private:
  static std::string lower(std::string text) {
    for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    return text;
  }
  static std::string line_text(SourceTexts& sources, const std::string& file, std::uint32_t line) {
    return lower(fmt::format("{}:{}  {}", file, line, sources.line(file, line)));
  }
  // Line 49 is not line 490.
  bool is_in(const std::string& line) const {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    for (std::size_t at = line.find(text_); at != std::string::npos; at = line.find(text_, at + 1)) {
      const std::size_t end = at + text_.size();
      if (!is_digit(text_.back()) || end == line.size() || !is_digit(line[end])) return true;
    }
    return false;
  }

  std::string text_;
  std::map<const CatalogRank*, SourceTexts> sources_;
  std::map<std::pair<const void*, std::uint32_t>, bool> known_;
};

// What all conditions of a call have in common; empty and the status set where an option means nothing.
class Selection {
 public:
  std::optional<WatchSelection> make(Catalog& catalog, const WatchVerbOptions& options, int& status) {
    std::optional<std::vector<SelectedStep>> steps = select_steps(catalog, options, status);
    if (!steps) return std::nullopt;
    status = kBadUsage;
    for (const SelectedStep& step : *steps) {
      steps_.insert(step.step);
      if (!options.select.empty()) ops_.insert(step.ops.begin(), step.ops.end());
    }
    has_patterns_ = !options.select.empty();
    if (!options.op.empty()) {
      nodes_ = std::make_unique<re2::RE2>(options.op, re2::RE2::Quiet);
      if (!nodes_->ok()) {
        print_error(fmt::format("--op '{}' is not a regular expression: {}", options.op, nodes_->error()));
        return std::nullopt;
      }
    }
    if (!options.source.empty()) source_ = std::make_unique<SourceMatcher>(options.source);
    WatchSelection selection;
    selection.category = *category_of_word(options.category.empty() ? "tensor" : options.category);
    using enum WatchSelection::Sides;
    selection.sides = options.side == "input" ? inputs : options.side == "both" ? both : outputs;
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
    if (nodes_ && !matches_name(op)) return false;
    return !source_ || source_->matches(rank, op);
  }
  bool matches_name(const CatalogOp& op) {
    const auto [at, is_new] = names_.try_emplace(op.op_name.data());
    if (is_new) at->second = re2::RE2::PartialMatch({op.op_name.data(), op.op_name.size()}, *nodes_);
    return at->second;
  }

  std::unordered_set<const CatalogStep*> steps_;
  bool has_patterns_ = false;
  std::unordered_set<const CatalogOp*> ops_;
  std::unique_ptr<re2::RE2> nodes_;
  std::map<const char*, bool> names_;
  std::unique_ptr<SourceMatcher> source_;
};

// Conditions that watch the nodes of their own category, less what the call leaves out.
bool add_conditions(const Catalog& catalog, const std::vector<WatchCondition>& conditions,
                    const WatchSelection& selection, std::vector<Watchpoint>& watchpoints) {
  for (const WatchCondition& condition : conditions) {
    const NodeCategory target = condition.info->target;
    WatchSelection own = selection;
    if (target != NodeCategory::tensor) {
      if (own.category != NodeCategory::tensor && own.category != target) {
        print_error(fmt::format("condition '{}' watches nodes of category {}, not {}", condition.info->id,
                                word_of(target), word_of(own.category)));
        return false;
      }
      own.category = target;
    }
    Watchpoint watchpoint;
    watchpoint.condition = condition;
    watchpoint.tensors = select_watched(catalog, own);
    if (watchpoint.tensors.empty()) {
      print_warning(fmt::format("condition '{}' has nothing to watch: no {} of these nodes was recorded{}",
                                condition.info->id, own.sides == WatchSelection::Sides::inputs ? "input" : "output",
                                own.category == NodeCategory::tensor
                                    ? std::string()
                                    : fmt::format(", or none is of category {}", word_of(own.category))));
    }
    watchpoints.push_back(std::move(watchpoint));
  }
  return true;
}

bool holds_anything(const Catalog& catalog) {
  for (const CatalogRank& rank : catalog.ranks) {
    for (const CatalogStep& step : rank.steps) {
      for (const CatalogOp& op : step.ops) {
        if (std::ranges::any_of(op.tensors, &CatalogTensor::recorded)) return true;
      }
    }
  }
  return false;
}

bool has_tensors(const std::vector<Watchpoint>& watchpoints) {
  return std::ranges::any_of(watchpoints, [](const Watchpoint& watchpoint) { return !watchpoint.tensors.empty(); });
}

std::optional<std::vector<Watchpoint>> make_watchpoints(const Catalog& catalog,
                                                        const std::vector<WatchCondition>& conditions,
                                                        const WatchVerbOptions& options, WatchSelection selection) {
  std::vector<Watchpoint> watchpoints;
  const auto add = [&] {
    if (options.recommended) watchpoints = recommended_watchpoints(catalog, selection);
    return add_conditions(catalog, conditions, selection, watchpoints);
  };
  if (!add()) return std::nullopt;
  if (has_tensors(watchpoints)) return watchpoints;
  print_error("nothing to watch: no node that was chosen has a recorded " +
              std::string(options.side == "both" ? "tensor" : options.side) +
              (options.side == "output" ? "; --side input looks at inputs" : ""));
  return std::nullopt;
}

int print_report(const Catalog& catalog, const std::vector<Watchpoint>& watchpoints, const WatchReport& report,
                 bool json) {
  add_unreadable(report.problems);
  const auto hits = static_cast<std::size_t>(std::ranges::count_if(report.hits, &WatchHit::hit));
  if (json) {
    Answer::get().add(json_of(catalog, watchpoints, report));
    return hits > 0 ? kFinding : kNothingFound;
  }
  if (!print_text(hits_table(catalog, watchpoints, report, terminal_width()))) return kUnreadable;
  print_notice(doubts_text(catalog, watchpoints, report));
  for (const std::string& note : report.notes) print_notice(printable(note) + "\n");
  print_notice(fmt::format("sonde: {} of {} in {}; {} read ({})\n", count_text(hits, "hit"),
                           count_text(watchpoints.size(), "condition"), count_text(report.tensors, "tensor"),
                           count_text(report.files, "file"), bytes_text(report.bytes)));
  return hits > 0 ? kFinding : kNothingFound;
}

int list_conditions(bool json) {
  if (json) Answer::get().add("conditions", conditions_json());
  return json || print_text(conditions_table(terminal_width())) ? kNothingFound : kUnreadable;
}

int watch(const WatchVerbOptions& options) {
  if (options.list) return list_conditions(options.json);
  if (options.dump.empty()) {
    print_error("DUMP is missing: which dump? (--list prints the conditions)");
    return kBadUsage;
  }
  std::vector<WatchCondition> conditions;
  for (const std::string& text : options.conditions) {
    Result<WatchCondition> condition = parse_condition(text);
    if (!condition) {
      print_error(condition.error().message);
      return kBadUsage;
    }
    conditions.push_back(std::move(*condition));
  }
  if (conditions.empty() && !options.recommended) {
    print_error("no condition: --condition NAME[:PARAMETER=NUMBER,…] or --recommended (--list prints the conditions)");
    return kBadUsage;
  }
  int status = kNothingFound;
  std::optional<Catalog> catalog = open_dump(options, status);
  if (!catalog) return status;
  Selection chosen;
  std::optional<WatchSelection> selection = chosen.make(*catalog, options, status);
  if (!selection) return status;
  if (!holds_anything(*catalog)) {
    print_error("no value and no statistic of any tensor is in this dump");
    return kUnreadable;
  }
  const auto watchpoints = make_watchpoints(*catalog, conditions, options, *selection);
  if (!watchpoints) return kBadUsage;
  WatchOptions how;
  how.threads = options.threads;
  how.most_bytes = options.mem_limit << 20;
  how.error_on_no_value = options.error_on_no_value;
  return print_report(*catalog, *watchpoints, check_watchpoints(*catalog, *watchpoints, how), options.json);
}

}  // namespace

void add_watch(CLI::App& app, int& exit_status) {
  auto options = std::make_shared<WatchVerbOptions>();
  CLI::App* verb = app.add_subcommand("watch", "Check conditions on the tensors of a dump: too large, unchanged, …");
  add_dump_options(*verb, *options, true);
  verb->get_option("DUMP")->required(false);
  verb->add_option("-c,--condition", options->conditions,
                   "a condition and its parameters, as tensor_overflow or\n"
                   "tensor_too_large:abs_mean_gt=10; repeatable")
      ->type_name("TEXT")
      ->take_all()
      ->allow_extra_args(false);
  verb->add_flag("--recommended", options->recommended, "the set that MindSpore's debugger recommends");
  verb->add_flag("--list", options->list, "print all conditions with their parameters and defaults");
  verb->add_option("--op", options->op, "ops whose full name holds a match of this regular expression")
      ->type_name("REGEX");
  verb->add_option("--category", options->category, "ops of this kind: weight, gradient, activation or tensor (all)")
      ->check(CLI::IsMember({"tensor", "weight", "gradient", "activation"}).description(""))
      ->type_name("NAME");
  verb->add_option("--source", options->source, "ops called from such a line, as train.py:49, or with this code in it")
      ->type_name("TEXT");
  verb->add_option("--side", options->side, "which tensors of them: output, input or both (default: output)")
      ->check(CLI::IsMember({"output", "input", "both"}).description(""))
      ->type_name("SIDE");
  verb->add_option("--mem-limit", options->mem_limit, "MiB of a tensor and the one before it; larger ones are errors")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{2147483647}).description(""))
      ->type_name("MIB");
  verb->add_flag("--error-on-no-value", options->error_on_no_value, "tensors without values are errors, not left out");
  verb->add_option("--threads", options->threads, "files read at the same time (default: one for each processor)")
      ->check(CLI::Range(1U, 1024U).description(""))
      ->type_name("N");
  verb->footer(
      "Exit status: 0 no condition fired, 1 one did, 2 bad usage, 3 dump unreadable.\n"
      "Example: sonde watch run7 --recommended\n"
      "         sonde watch run7 -c 'gradient_too_large:abs_mean_gt=10' -c weight_not_changed --step 3-9 --json");
  verb->callback([options, &exit_status] { exit_status = watch(*options); });
}

}  // namespace sonde
