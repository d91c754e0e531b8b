// The known facts about a watched tensor: from the dump alone, or from its file.
#pragma once

#include "ask/watch/watch_item.h"

namespace sonde {

WatchFacts known_facts(const Catalog& catalog, const WatchItem& item);
// Of new statistics of its values.
WatchFacts statistics_facts(const WatchItem& item, const KnownStatistics& statistics);
// Of an item whose file was read.
WatchFacts read_facts(const WatchItem& item);

}  // namespace sonde
