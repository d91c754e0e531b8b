// Tensors that came from a device: their records are completed from the bytes that have arrived.
#pragma once

#include "dump/journal/record.h"
#include "plan/config/plan.h"

namespace sonde {

class Hasher;

// One thread at a time: the writer's, or the one that hands the record to a ring. The statistics and hashes of a content
// are made once, with its first record. `hasher`: makes the hashes of large tensors; null: they are made here.
void settle_late_tensors(const Plan& plan, Record& record, Hasher* hasher);

}  // namespace sonde
