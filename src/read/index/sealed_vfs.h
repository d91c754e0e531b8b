// How SQLite reads a sealed file: page by page, each checked.
#pragma once

#include "read/index/sealed_file.h"

struct sqlite3_vfs;

namespace sonde {

inline constexpr const char* kSealedVfs = "sonde-sealed";

// A way to read files, to be registered. It leaves all but the database itself to `base`, which is SQLite's own.
sqlite3_vfs* sealed_vfs(sqlite3_vfs* base);

// The file that the next database that this thread opens with kSealedVfs has; the open empties it.
void pass_to_sqlite(SealedFile file);

}  // namespace sonde
