// The functions of SQLite that an index needs. The library is loaded at its first use, and not linked: the engine runs
// in other people's processes, which may bring another SQLite.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "sonde/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace sonde {

// One prepared statement. Columns and parameters count from 0. One thread.
class Statement {
 public:
  Statement() = default;
  Statement(Statement&& other) noexcept;
  Statement& operator=(Statement&& other) noexcept;
  ~Statement();

  // Values of the parameters stay until they are set again. Texts are not copied, so they must live until `run` or the
  // last `next`.
  void set(int parameter, std::int64_t value);
  void set(int parameter, std::uint64_t value) { set(parameter, static_cast<std::int64_t>(value)); }
  void set(int parameter, double value);  // a NaN becomes null
  void set(int parameter, std::string_view text);
  void set_null(int parameter);

  bool next();  // to the next row; false: there is none, or failed() is true
  bool run();   // to the end, ready for the next values; false: failed() is true
  void reset();
  bool failed() const { return failed_; }  // stays true

  bool is_null(int column) const;
  std::int64_t integer(int column) const;
  std::uint64_t number(int column) const { return static_cast<std::uint64_t>(integer(column)); }
  double real(int column) const;
  std::string_view text(int column) const;  // valid until the next row

 private:
  friend class Database;
  sqlite3_stmt* statement_ = nullptr;
  bool failed_ = false;
  std::uint64_t not_null_ = 0;  // bits of the first 64 parameters, which are null at first
};

class Database {
 public:
  Database(Database&& other) noexcept;
  Database& operator=(Database&& other) noexcept;
  ~Database();

  // Opens a new or empty file. Its content is safe only after it is closed.
  static Result<Database> create(const std::filesystem::path& file);
  // A new one that has no file.
  static Result<Database> create_in_memory();
  // Never writes, and takes no lock: the file must not be changed meanwhile.
  static Result<Database> open(const std::filesystem::path& file);
  // The same for a sealed file (index/sealed_file.h). Each page is checked when it is read: where it is not as it was
  // sealed, statements fail.
  static Result<Database> open_sealed(const std::filesystem::path& file);

  Status execute(const char* sql);  // several statements, no rows
  Result<Statement> prepare(const char* sql);
  Error error(const std::string& what) const;  // with SQLite's message about the last failure

 private:
  Database() = default;
  static Result<Database> open_as(const std::filesystem::path& file, const std::string& uri, int flags);

  sqlite3* database_ = nullptr;
  std::filesystem::path file_;
};

}  // namespace sonde
