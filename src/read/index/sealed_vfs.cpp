#include "read/index/sealed_vfs.h"

#include <sqlite3.h>

#include <algorithm>
#include <cstring>
#include <new>
#include <optional>
#include <utility>

namespace sonde {
namespace {

thread_local std::optional<SealedFile> passed;
sqlite3_vfs* base_vfs = nullptr;

// SQLite allocates it, and calls the functions below with it.
struct SqliteFile {
  sqlite3_file base;
  SealedFile* file;
  std::vector<char>* page;
};

SqliteFile& of(sqlite3_file* file) { return *reinterpret_cast<SqliteFile*>(file); }

int close_file(sqlite3_file* file) {
  delete of(file).file;
  delete of(file).page;
  return SQLITE_OK;
}

// Whole pages mostly; of the first page sometimes only the header.
int read_file(sqlite3_file* handle, void* to, int count, sqlite3_int64 offset) {
  const SealedFile& file = *of(handle).file;
  char* out = static_cast<char*>(to);
  auto at = static_cast<std::uint64_t>(offset);
  auto left = static_cast<std::size_t>(count);
  const std::size_t page_bytes = file.page_bytes();
  while (left > 0) {
    if (at >= file.bytes()) {
      std::memset(out, 0, left);
      return SQLITE_IOERR_SHORT_READ;
    }
    const std::size_t within = at % page_bytes, take = std::min(left, page_bytes - within);
    if (take == page_bytes) {
      if (!file.read_page(at / page_bytes, out)) return SQLITE_CORRUPT;
    } else {
      std::vector<char>& page = *of(handle).page;
      page.resize(page_bytes);
      if (!file.read_page(at / page_bytes, page.data())) return SQLITE_CORRUPT;
      std::memcpy(out, page.data() + within, take);
    }
    out += take;
    at += take;
    left -= take;
  }
  return SQLITE_OK;
}

int file_size(sqlite3_file* file, sqlite3_int64* bytes) {
  *bytes = static_cast<sqlite3_int64>(of(file).file->bytes());
  return SQLITE_OK;
}

int is_reserved(sqlite3_file*, int* out) {
  *out = 0;
  return SQLITE_OK;
}

// Never written, never locked.
constexpr sqlite3_io_methods kMethods = {
    .iVersion = 1,
    .xClose = close_file,
    .xRead = read_file,
    .xWrite = [](sqlite3_file*, const void*, int, sqlite3_int64) { return SQLITE_READONLY; },
    .xTruncate = [](sqlite3_file*, sqlite3_int64) { return SQLITE_READONLY; },
    .xSync = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xFileSize = file_size,
    .xLock = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xUnlock = [](sqlite3_file*, int) { return SQLITE_OK; },
    .xCheckReservedLock = is_reserved,
    .xFileControl = [](sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; },
    .xSectorSize = [](sqlite3_file*) { return 0; },
    .xDeviceCharacteristics = [](sqlite3_file*) { return 0; },
    .xShmMap = nullptr,
    .xShmLock = nullptr,
    .xShmBarrier = nullptr,
    .xShmUnmap = nullptr,
    .xFetch = nullptr,
    .xUnfetch = nullptr,
};

int open_file(sqlite3_vfs*, const char* name, sqlite3_file* handle, int flags, int* out_flags) {
  if ((flags & SQLITE_OPEN_MAIN_DB) == 0) return base_vfs->xOpen(base_vfs, name, handle, flags, out_flags);
  SqliteFile& file = of(handle);
  file = {};
  if (!passed) return SQLITE_CANTOPEN;
  file.file = new (std::nothrow) SealedFile(std::move(*passed));
  file.page = new (std::nothrow) std::vector<char>();
  passed.reset();
  if (file.file == nullptr || file.page == nullptr) {
    close_file(handle);
    return SQLITE_NOMEM;
  }
  file.base.pMethods = &kMethods;
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

}  // namespace

sqlite3_vfs* sealed_vfs(sqlite3_vfs* base) {
  static sqlite3_vfs* const vfs = [base] {
    base_vfs = base;
    auto* const made = new sqlite3_vfs(*base);  // never freed: SQLite keeps it
    made->pNext = nullptr;
    made->zName = kSealedVfs;
    made->szOsFile = std::max(base->szOsFile, static_cast<int>(sizeof(SqliteFile)));
    made->xOpen = open_file;
    return made;
  }();
  return vfs;
}

void pass_to_sqlite(SealedFile file) { passed = std::move(file); }

}  // namespace sonde
