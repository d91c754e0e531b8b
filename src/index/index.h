// Index: a catalog saved in a file (SQLite; the tables: docs/catalog.md), for dumps with so many files that looking through
// them takes long. It is used while nothing in the dump has changed, and never needed: without one the dump itself is read.
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

#include "catalog/catalog.h"
#include "sonde/result.h"

namespace sonde {

// The part of the catalog that is needed. The result has all ranks, runs and steps, and the requested ops; it may have
// more.
struct CatalogQuery {
  std::optional<std::uint32_t> rank, graph;
  std::function<bool(std::uint64_t)> steps;  // by step; empty: all
  bool first_step_only = false;              // ops of the first of those only
  bool with_ops = true;
  // The ops in those steps: with an accepted name and type, with a tensor of this name, or with this file (the last
  // part of its path). All ops, where none of the three is given.
  std::function<bool(std::string_view op_name, std::string_view op_type)> ops;
  std::string parameter, file;
  bool with_neighbours = false;  // also those that feed them, that read them, or read the same tensors

  bool takes(std::uint32_t of_rank, StepId step) const {
    return (!rank || *rank == of_rank) && (!graph || *graph == step.graph) && (!steps || steps(step.number));
  }
  bool takes_all_ops() const { return !ops && parameter.empty() && file.empty(); }
};

class Index {
 public:
  // The index of a dump (any directory that open_catalog takes) in the user's cache, or in `file`. Fails with `not_found`
  // when there is none, `corrupt` when it is not a complete index of this dump and version, `busy` when the dump has
  // changed since.
  static Result<Index> open(const std::filesystem::path& dump, const std::filesystem::path& file = {});

  Index(Index&&) noexcept;
  Index& operator=(Index&&) noexcept;
  ~Index();

  Result<Catalog> load(const CatalogQuery& query = {});

 private:
  struct State;
  explicit Index(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

struct IndexReport {
  std::filesystem::path file;  // the index
  std::uint64_t files = 0;     // in the dump
  std::uint64_t tensors = 0;
  std::uint64_t bytes = 0;  // of the index
  double read_seconds = 0, write_seconds = 0;
};

// Reads a dump and saves its index in the user's cache, or in `file`. Waits until the dump has been at rest for two
// seconds; fails with `busy` when it is still being written, and like open_catalog.
Result<IndexReport> build_index(const std::filesystem::path& dump, const std::filesystem::path& file = {});

// Reads a valid index, else the dump, whose index is then saved if that took long. Fails like open_catalog; a problem
// with an index is not a failure. SONDE_INDEX=off in the environment: the dump is read.
Result<Catalog> open_catalog(const std::filesystem::path& path, const CatalogQuery& query);

}  // namespace sonde
