// GrowingIndex: the tables of a dump that is being recorded. Each look reads what its journals got, and no more.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "read/catalog/catalog.h"
#include "read/catalog/read_progress.h"
#include "read/index/sqlite.h"
#include "sonde/result.h"

namespace sonde {

class GrowingIndex {
 public:
  // Reads what is there; progress in megabytes. Fails with `unsupported` for a dump without a journal, or beside other
  // ones, or whose journals must be read as a whole.
  static Result<GrowingIndex> open(const std::filesystem::path& dump, const ReadProgress& progress = {});
  GrowingIndex(GrowingIndex&&) noexcept;
  GrowingIndex& operator=(GrowingIndex&&) noexcept;
  ~GrowingIndex();

  // False: there is nothing new. Fails with `unsupported` where the dump must be read anew.
  Result<bool> grow() { return grow({}); }
  bool has_finished() const;       // all of its runs have ended by themselves
  std::uint64_t ops_over() const;  // the ops with smaller ids do not change any more
  Database& database();

 private:
  struct State;
  explicit GrowingIndex(std::unique_ptr<State> state);
  Result<bool> grow(const ReadProgress& progress);
  std::unique_ptr<State> state_;
};

}  // namespace sonde
