// Results of runs without gradients that the program throws away: a warm-up, the measurement of memory, the dummy run of an
// engine.
#pragma once

#include "ask/first_bad/first_bad_search.h"

namespace sonde {

// Whether nothing uses what this root of the search's step makes bad: no operator of this step or a later one, no
// parameter or buffer, no number, no copy. It is not a result of the program either: a training comes, or a later step has
// operators that read what nothing reads here.
bool is_thrown_away(RankSearch& search, const Root& root);

}  // namespace sonde
