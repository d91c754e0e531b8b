// Text that `sonde_settings.private` keeps out of a dump: the command line, the texts of sources, absolute paths.
#pragma once

#include <string>

#include "dump/journal/record.h"
#include "plan/config/plan.h"

namespace sonde {

// The configuration for the copy in the dump. Private: absolute paths in it are empty; the text is empty if it cannot
// be read.
std::string config_copy(const Plan& plan);

// An error or a note. Private: without the path of the dump.
std::string note_text(const Plan& plan, std::string text);

// Private: only the names of files.
Site without_paths(Site site);

}  // namespace sonde
