// Files of some versions beside a dump: a copy of the configuration (1.2) and of the rank table (1.3 to 2.3), and the
// options that O2 passes to CANN.
#pragma once

#include <filesystem>
#include <string>

#include "dump/layout/layout.h"
#include "plan/config/plan.h"
#include "sonde/result.h"

namespace sonde {

// `aside`: the directory for files being written. The layout decides which files are written.
Status write_side_files(const Plan& plan, const Layout& layout, const std::filesystem::path& aside);

// acl_dump_{device}.json of O2: one compact object, keys sorted, of a run that dumps.
std::string acl_config_json(const Plan& plan);

}  // namespace sonde
