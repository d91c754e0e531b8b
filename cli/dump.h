// Common parts of the verbs that read a dump: opening it, choosing steps and ops, reporting missing ones.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "catalog/select_steps.h"
#include "config/diagnostics.h"
#include "index/index.h"
#include "sonde/dump.h"

namespace sonde {

struct DumpOptions {
  std::string dump;
  std::vector<std::string> select;  // patterns; empty: all ops
  std::string step;                 // "3", "0-5", "1|4"; empty: all
  std::optional<std::uint32_t> graph, rank;
  bool json = false;
};

// --json; and --jsonl where the verb's list can be printed as lines: `rows` says what of.
void add_json_options(CLI::App& verb, bool& json, std::string_view rows = "");
// --step; `otherwise`: which without it.
void add_step_option(CLI::App& verb, std::string& steps, std::string_view otherwise);
// Empty for a list such as 3, 0-5 or 1|4; else the complaint: it names no `what`.
std::string list_complaint(const std::string& text, std::string_view what);
// DUMP, --step, --graph, --rank, --json; and -s where `with_select`.
void add_dump_options(CLI::App& verb, DumpOptions& options, bool with_select, std::string_view rows = "");

// Opens options.dump and reports its problems on stderr. Empty, the exit status set, when there is nothing to look at.
std::optional<Catalog> open_dump(const DumpOptions& options, int& exit_status);
// The same for a verb that looks at no more than the query asks for: from a large dump's saved index it then takes
// milliseconds.
std::optional<Catalog> open_dump(const DumpOptions& options, const CatalogQuery& query, int& exit_status);

// The ranks, graphs and steps that were chosen, with all of their ops.
CatalogQuery query_of(const DumpOptions& options);
// Their ops that `options.select` chooses.
CatalogQuery query_of_selected(const DumpOptions& options);

// Reports requested files that could not be read, also in the document; the exit status is 3.
void add_unreadable(const std::vector<CatalogProblem>& problems);
void add_unreadable(const std::vector<DumpProblem>& problems);
void add_unreadable(const std::vector<std::string>& messages);

// A line on stderr about a configuration.
void print_diagnostic(const Diagnostic& diagnostic, const std::filesystem::path& file);

// Its steps may then lack ops that were not asked for.
bool comes_from_index(const Catalog& catalog);

// Empty, and the exit status set, when a step, graph or rank means nothing in this dump; stderr then says what there is.
std::optional<DumpPart> chosen_part(const Catalog& catalog, const DumpOptions& options, int& exit_status);
// The same, when a pattern means nothing either.
std::optional<std::vector<SelectedStep>> select_steps(Catalog& catalog, const DumpOptions& options, int& exit_status);

// A line on stderr while work takes longer than a second and stderr is a terminal; gone when this is.
class Progress {
 public:
  Progress(std::string what, std::size_t total);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void advance();

 private:
  std::string what_;
  std::size_t total_, done_ = 0;
  std::uint64_t began_ms_, shown_ms_ = 0;
  bool is_terminal_;
};

}  // namespace sonde
