#include "read/index/sqlite.h"

#include <dlfcn.h>
#include <sqlite3.h>

#include <utility>

#include "read/index/sealed_vfs.h"

namespace sonde {
namespace {

// The functions that are used, under their own names.
struct Library {
  decltype(&sqlite3_open_v2) open_v2 = nullptr;
  decltype(&sqlite3_close_v2) close_v2 = nullptr;
  decltype(&sqlite3_exec) exec = nullptr;
  decltype(&sqlite3_errmsg) errmsg = nullptr;
  decltype(&sqlite3_prepare_v2) prepare_v2 = nullptr;
  decltype(&sqlite3_finalize) finalize = nullptr;
  decltype(&sqlite3_step) step = nullptr;
  decltype(&sqlite3_reset) reset = nullptr;
  decltype(&sqlite3_bind_int64) bind_int64 = nullptr;
  decltype(&sqlite3_bind_double) bind_double = nullptr;
  decltype(&sqlite3_bind_text) bind_text = nullptr;
  decltype(&sqlite3_bind_null) bind_null = nullptr;
  decltype(&sqlite3_column_type) column_type = nullptr;
  decltype(&sqlite3_column_int64) column_int64 = nullptr;
  decltype(&sqlite3_column_double) column_double = nullptr;
  decltype(&sqlite3_column_text) column_text = nullptr;
  decltype(&sqlite3_column_bytes) column_bytes = nullptr;
  decltype(&sqlite3_vfs_find) vfs_find = nullptr;
  decltype(&sqlite3_vfs_register) vfs_register = nullptr;
  std::string problem;  // the reason why it cannot be used

  std::string add_vfs() const;

  Library() {
    void* const handle = ::dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) {
      problem = "SQLite is not installed (Debian: libsqlite3-0)";
      return;
    }
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
      if (function == nullptr) problem = std::string("libsqlite3.so.0 has no ") + name;
    };
    find(open_v2, "sqlite3_open_v2");
    find(close_v2, "sqlite3_close_v2");
    find(exec, "sqlite3_exec");
    find(errmsg, "sqlite3_errmsg");
    find(prepare_v2, "sqlite3_prepare_v2");
    find(finalize, "sqlite3_finalize");
    find(step, "sqlite3_step");
    find(reset, "sqlite3_reset");
    find(bind_int64, "sqlite3_bind_int64");
    find(bind_double, "sqlite3_bind_double");
    find(bind_text, "sqlite3_bind_text");
    find(bind_null, "sqlite3_bind_null");
    find(column_type, "sqlite3_column_type");
    find(column_int64, "sqlite3_column_int64");
    find(column_double, "sqlite3_column_double");
    find(column_text, "sqlite3_column_text");
    find(column_bytes, "sqlite3_column_bytes");
    find(vfs_find, "sqlite3_vfs_find");
    find(vfs_register, "sqlite3_vfs_register");
    if (problem.empty()) problem = add_vfs();
  }
};

// Lets SQLite read sealed files; the reason why it cannot, or empty.
std::string Library::add_vfs() const {
  sqlite3_vfs* const own = vfs_find(nullptr);
  if (own == nullptr) return "libsqlite3.so.0 has no way to read files";
  return vfs_register(sealed_vfs(own), 0) == SQLITE_OK ? "" : "libsqlite3.so.0 refuses another way to read files";
}

const Library& library() {
  static const Library* const loaded = new Library();  // never unloaded: statements may outlive main
  return *loaded;
}

// A path inside a URI.
std::string escaped(const std::string& path) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string out;
  for (const char c : path) {
    if (c == '%' || c == '?' || c == '#') {
      const auto byte = static_cast<unsigned char>(c);
      out += {'%', kHex[byte >> 4U], kHex[byte & 15U]};
    } else {
      out += c;
    }
  }
  return out;
}

std::uint64_t bit_of(int parameter) { return parameter < 64 ? std::uint64_t{1} << parameter : 0; }

}  // namespace

Statement::Statement(Statement&& other) noexcept
    : statement_(std::exchange(other.statement_, nullptr)), failed_(other.failed_), not_null_(other.not_null_) {}

Statement& Statement::operator=(Statement&& other) noexcept {
  std::swap(statement_, other.statement_);
  std::swap(failed_, other.failed_);
  std::swap(not_null_, other.not_null_);
  return *this;
}

Statement::~Statement() {
  if (statement_ != nullptr) library().finalize(statement_);
}

void Statement::set(int parameter, std::int64_t value) {
  not_null_ |= bit_of(parameter);
  failed_ |= library().bind_int64(statement_, parameter + 1, value) != SQLITE_OK;
}

void Statement::set(int parameter, double value) {
  not_null_ |= bit_of(parameter);
  failed_ |= library().bind_double(statement_, parameter + 1, value) != SQLITE_OK;
}

void Statement::set(int parameter, std::string_view text) {
  not_null_ |= bit_of(parameter);
  const char* const data = text.data() == nullptr ? "" : text.data();
  failed_ |=
      library().bind_text(statement_, parameter + 1, data, static_cast<int>(text.size()), SQLITE_STATIC) != SQLITE_OK;
}

// Most columns of most rows are null: those that are so already are left alone.
void Statement::set_null(int parameter) {
  if (parameter < 64 && (not_null_ & bit_of(parameter)) == 0) return;
  not_null_ &= ~bit_of(parameter);
  failed_ |= library().bind_null(statement_, parameter + 1) != SQLITE_OK;
}

bool Statement::next() {
  if (failed_) return false;
  const int result = library().step(statement_);
  failed_ = result != SQLITE_ROW && result != SQLITE_DONE;
  return result == SQLITE_ROW;
}

bool Statement::run() {
  while (next()) {
  }
  reset();
  return !failed_;
}

void Statement::reset() { library().reset(statement_); }

bool Statement::is_null(int column) const { return library().column_type(statement_, column) == SQLITE_NULL; }

std::int64_t Statement::integer(int column) const { return library().column_int64(statement_, column); }

double Statement::real(int column) const { return library().column_double(statement_, column); }

std::string_view Statement::text(int column) const {
  const unsigned char* const data = library().column_text(statement_, column);
  if (data == nullptr) return {};
  return {reinterpret_cast<const char*>(data), static_cast<std::size_t>(library().column_bytes(statement_, column))};
}

Database::Database(Database&& other) noexcept
    : database_(std::exchange(other.database_, nullptr)), file_(std::move(other.file_)) {}

Database& Database::operator=(Database&& other) noexcept {
  std::swap(database_, other.database_);
  std::swap(file_, other.file_);
  return *this;
}

Database::~Database() {
  if (database_ != nullptr) library().close_v2(database_);
}

Result<Database> Database::open_as(const std::filesystem::path& file, const std::string& uri, int flags) {
  if (!library().problem.empty()) return Error{ErrorCode::unsupported, library().problem};
  Database database;
  database.file_ = file;
  const int result =
      library().open_v2(uri.c_str(), &database.database_, flags | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  if (result != SQLITE_OK) return database.error("cannot open it");
  return database;
}

Result<Database> Database::create(const std::filesystem::path& file) {
  return open_as(file, "file:" + escaped(file.string()), SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

Result<Database> Database::create_in_memory() {
  return open_as("index in memory", ":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
}

Result<Database> Database::open(const std::filesystem::path& file) {
  return open_as(file, "file:" + escaped(file.string()) + "?immutable=1", SQLITE_OPEN_READONLY);
}

Result<Database> Database::open_sealed(const std::filesystem::path& file) {
  Result<SealedFile> sealed = SealedFile::open(file);
  if (!sealed) return sealed.error();
  if (!library().problem.empty()) return Error{ErrorCode::unsupported, library().problem};
  pass_to_sqlite(std::move(*sealed));
  return open_as(file, "file:" + escaped(file.string()) + "?immutable=1&vfs=" + kSealedVfs, SQLITE_OPEN_READONLY);
}

Status Database::execute(const char* sql) {
  if (library().exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) return error("cannot use it");
  return {};
}

Result<Statement> Database::prepare(const char* sql) {
  Statement statement;
  if (library().prepare_v2(database_, sql, -1, &statement.statement_, nullptr) != SQLITE_OK) {
    return error("cannot ask it");
  }
  return statement;
}

Error Database::error(const std::string& what) const {
  const char* const words = database_ != nullptr ? library().errmsg(database_) : "no memory";
  return Error{ErrorCode::corrupt, "'" + file_.string() + "': " + what + ": " + words};
}

}  // namespace sonde
