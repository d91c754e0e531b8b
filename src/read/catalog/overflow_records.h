// The operators for which the device reported overflow: the files Opdebug.Node_OpDebug.* beside theirs; and whether a
// dump holds only operators that overflowed.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "read/catalog/catalog.h"

namespace sonde {

class OverflowRecords {
 public:
  explicit OverflowRecords(const CatalogRank& rank);

  // Empty: nothing beside the operator's files reports overflows.
  std::optional<bool> of(const CatalogStep& step, const CatalogOp& op);
  // op_debug_mode 3 or dump_debug: an operator is in the dump if one of its outputs is not finite.
  bool only_overflows() const { return only_overflows_; }

 private:
  // For one directory.
  struct Records {
    bool any = false;
    std::set<std::pair<std::uint64_t, std::uint64_t>> tasks;  // task and stream of each record
    std::set<std::string> ops;                                // names, as in file names, of the ops with such a file
  };
  const Records& in(const std::string& directory);
  Records read(const std::string& directory) const;

  const CatalogRank& rank_;
  bool only_overflows_ = false;
  std::map<std::string, Records> by_directory_;  // relative to the rank's
};

}  // namespace sonde
