// Index: a catalog saved in a file (SQLite; the tables: docs/catalog.md), for dumps with so many files that reading
// them takes long. It is used while nothing in the dump has changed, and it is optional: without one the dump itself is
// read.
//
//   CatalogQuery query;
//   query.steps = [](std::uint64_t step) { return step == 7; };
//   Result<Catalog> catalog = open_catalog(dump, query);   // from the index, or from the dump
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "contract/command_answers.h"
#include "read/catalog/catalog.h"
#include "sonde/result.h"

namespace sonde {

// The requested part of the catalog. The result has all ranks, runs and steps, and the requested ops; it may have more.
struct CatalogQuery {
  std::optional<std::uint32_t> rank, graph;
  std::function<bool(std::uint64_t)> steps;  // by step; empty: all
  bool first_step_only = false;              // only the ops of the first of those steps
  bool with_ops = true;
  bool with_values = true;  // false: nobody asks for them, so a remark about those that are missing is of no use
  // The ops in those steps with an accepted name and type, with a tensor of this name, or with this file (the last part
  // of its path). All ops if none of the three is given.
  std::function<bool(std::string_view op_name, std::string_view op_type)> ops;
  std::string parameter, file;
  // Of all those ops with one name only the first, with OpSum. Together with `steps`, `rank`, `graph` and `ops` only.
  bool first_of_name = false;
  bool with_makers = false;      // also those that made what they read
  bool with_neighbours = false;  // also those that feed them, that read them, or read the same tensors

  bool takes(std::uint32_t of_rank, StepId step) const {
    return (!rank || *rank == of_rank) && (!graph || *graph == step.graph) && (!steps || steps(step.number));
  }
  bool takes_all_ops() const { return !ops && parameter.empty() && file.empty(); }
};

// Called with a word for the work and the parts of it that are done, of all. From any thread, one call at a time.
using IndexProgress = std::function<void(std::string_view work, std::uint64_t done, std::uint64_t all)>;

class Database;

class Index {
 public:
  // The index of a dump (any directory that open_catalog accepts) in the user's cache, or in `file`. Fails with
  // `not_found` if there is none, `corrupt` if it is not a complete index of this dump and version, `busy` if the dump
  // has changed since.
  static Result<Index> open(const std::filesystem::path& dump, const std::filesystem::path& file = {});

  // A saved index; else one in memory, which shows the dump as it is now. Saves one where open_catalog would.
  static Result<Index> open_or_make(const std::filesystem::path& dump, const IndexProgress& progress = {});

  // One in memory of a dump that is being recorded: grow() reads what its journals got, and no more. Fails with
  // `unsupported` where only the whole dump can be read.
  static Result<Index> open_growing(const std::filesystem::path& dump, const IndexProgress& progress = {});
  // False: there is nothing new. Fails where the dump must be read anew.
  Result<bool> grow();
  bool grows() const;
  // It has grown for the last time, since all runs have finished: from now on changed() compares files. False: some run
  // did not finish, so the dump must be read as a whole.
  bool settle();
  std::uint64_t ops_over() const;  // of one that grows: the ops with smaller ids do not change any more

  Index(Index&&) noexcept;
  Index& operator=(Index&&) noexcept;
  ~Index();

  Result<Catalog> load(const CatalogQuery& query = {});
  // The tables of docs/catalog.md, for queries by one thread at a time.
  Database& database();
  bool is_saved() const;  // it is a file
  // The first file of the dump that has changed since, as text for the user; empty: none.
  std::string changed() const;

 private:
  struct State;
  explicit Index(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Reads a dump and saves its index in the user's cache, or in `file`. Waits until the dump has been unchanged for two
// seconds. Fails with `busy` if it is still being written, and like open_catalog.
Result<IndexReport> build_index(const std::filesystem::path& dump, const std::filesystem::path& file = {},
                                const IndexProgress& progress = {});

// SONDE_INDEX=off in the environment: no index may be read.
bool indices_are_off();

// Reads a valid index, or those of all ranks, otherwise the dump. If that took long, saves an index. Fails like open_catalog; a problem with
// an index is not a failure. With SONDE_INDEX=off in the environment the dump is read.
Result<Catalog> open_catalog(const std::filesystem::path& path, const CatalogQuery& query);

}  // namespace sonde
