// The runs of a dump that did not end their recording themselves: nobody knows what came after their last step.
#pragma once

#include <string>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/catalog/dump_part.h"
#include "sonde/findings.h"

namespace sonde {

// Of ranks with a journal whose last step is in `part`: a user who asks about earlier steps gets all that he asks for.
std::vector<UnfinishedRun> unfinished_runs(const Catalog& catalog, const DumpPart& part);
// Those that go on are left out: their later steps will come.
bool any_ended_early(const std::vector<UnfinishedRun>& runs);
// A line for each that ended early: "the run was killed, or could not write its end, in step 2; later steps are not …".
std::vector<std::string> early_ends(const Catalog& catalog, const DumpPart& part);

}  // namespace sonde
