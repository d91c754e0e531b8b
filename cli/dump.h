// Common parts of the verbs that read a dump: opening it, choosing steps and ops, reporting missing ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "answer.h"
#include "contract/commands.h"
#include "plan/config/diagnostics.h"
#include "read/catalog/select_steps.h"
#include "read/index/index.h"
#include "sonde/dump.h"

namespace sonde {

// Empty for a list such as 3, 0-5 or 1|4; otherwise the error message, without the option's name.
std::string list_complaint(const std::string& text, std::string_view what);

// Opens options.dump and reports its problems on stderr. Empty, with the exit status set, if there is nothing to show.
std::optional<Catalog> open_dump(const DumpOptions& options, int& exit_status);
// The same for a verb that needs only the part in the query: with the saved index of a large dump this takes
// milliseconds.
std::optional<Catalog> open_dump(const DumpOptions& options, const CatalogQuery& query, int& exit_status);

// Reports the problems of a catalog; what is lost does not change the exit status.
void report_problems(const Catalog& catalog);
void report_dump(const Catalog& catalog);

// The chosen ranks, graphs and steps, with all of their ops.
CatalogQuery query_of(const DumpOptions& options);
// The ops in them that `options.select` chooses.
CatalogQuery query_of_selected(const DumpOptions& options);

// Reports requested files that could not be read, also in the document; the exit status is 3.
void add_unreadable(const std::vector<CatalogProblem>& problems);
void add_unreadable(const std::vector<DumpProblem>& problems);
void add_unreadable(const std::vector<std::string>& messages);

// Warns of runs that ended before their program did, if it is known; true: then a verb that finds nothing does not know
// that nothing is wrong.
bool warn_of_early_ends(const Catalog& catalog, const DumpPart& part);

// Warns of ranks that the dump lacks or that another version recorded, unless one rank was asked for.
void warn_of_ranks(const Catalog& catalog, const std::optional<std::uint32_t>& asked);

// Prints a line on stderr about a configuration.
void print_diagnostic(const Diagnostic& diagnostic, const std::filesystem::path& file);

// The steps may then lack ops that were not requested.
bool comes_from_index(const Catalog& catalog);

// The part that the command line names; it has checked the text.
DumpPart part_of(const DumpOptions& options);
// Empty, with the exit status set, if the dump has no such step, graph or rank; stderr lists the existing ones.
std::optional<DumpPart> chosen_part(const Catalog& catalog, const DumpOptions& options, int& exit_status);
// The same, also if a pattern selects nothing.
std::optional<std::vector<SelectedStep>> select_steps(Catalog& catalog, const DumpOptions& options, int& exit_status);

}  // namespace sonde
