// RunDirectory: one rank's directory, owned by one live run: made, locked, cleaned of leftovers, described.
#pragma once

#include <filesystem>
#include <string>

#include "dump/layout/layout.h"
#include "ground/files/files.h"
#include "plan/config/plan.h"
#include "sonde/result.h"

namespace sonde {

struct RunDirectory {
  std::filesystem::path aside;  // for files without their final name
  std::string config_file;      // of this run, relative to the metadata directory; empty: the plan has no text
  Fd all_aside;                 // the directory that contains `aside`
  Fd owner;                     // the locked file; the lock ends with it
};

// Checks that an existing tree may be written to: docs/format.md, "What is written where". Creates nothing.
Status check_tree(const Layout& layout);

// `busy`, with the process id, if another live run records there. Creates nothing.
Status check_not_owned(const Layout& layout);

// Whether a process that this one has started, or one of its own, has recorded a rank in the tree below `root`.
bool is_recorded_by_children(const std::filesystem::path& root);

// Makes the directories, takes the lock (`busy`: another process records there, or one of this launch, which claims the
// same rank without being its next run, has recorded there), removes incomplete files of killed runs, and writes
// .dump_metadata/{data_dump,config}.json. Existing ones stay; this run's configuration then goes beside them, to
// .dump_metadata/sonde/run_{n}.json.
Result<RunDirectory> open_run_directory(const Plan& plan, const RunInfo& run, const Layout& layout);

// The run is over: the lock file, too, gets its final mode.
void close_run_directory(RunDirectory& directory);

}  // namespace sonde
