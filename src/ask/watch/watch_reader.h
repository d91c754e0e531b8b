// WatchReader: reads the files of watched tensors whose conditions the dump alone does not decide.
//
//   WatchReader(catalog, items, options).run();  // fills in the items
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "ask/watch/watch_item.h"

namespace sonde {

class TensorFile;

class WatchReader {
 public:
  WatchReader(const Catalog& catalog, WatchItems& items, const WatchOptions& options)
      : catalog_(catalog), items_(items), options_(options) {}

  void run();

 private:
  bool has_to_be_read(const WatchItem& item) const;
  std::vector<std::vector<WatchItem*>> jobs();
  void read_job(std::span<WatchItem* const> job) const;
  void collect_needs(WatchItem& item) const;
  bool is_judged_by_statistics(WatchItem& item, const TensorFile& file) const;
  bool answers(const WatchItem& item, const KnownStatistics& statistics) const;
  bool copy_item(WatchItem& item, const WatchItem& other) const;
  bool read_item(WatchItem& item, const TensorFile& file, std::optional<TensorFile>& earlier) const;
  void compare_item(WatchItem& item, const TensorFile& file, std::optional<TensorFile>& earlier) const;

  const Catalog& catalog_;
  WatchItems& items_;
  const WatchOptions& options_;
};

}  // namespace sonde
