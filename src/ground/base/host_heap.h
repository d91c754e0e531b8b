// The heap that Sonde shares with its host.
#pragma once

namespace sonde {

// From now on glibc keeps up to 64 MB of freed memory at the end of its heap, instead of a few: a training step frees
// most of its tensors at its end, and each page that went back to the system costs a fault in the next step. Sonde's small
// blocks change where tensors lie, and made it give back twice as much.
//
// glibc has two thresholds, which follow the largest block of pages of its own that was freed: blocks up to that size come
// from the heap, and twice as much may be free at its end. This frees one of the largest size that counts, without
// touching it. Thresholds that the user has set (MALLOC_TRIM_THRESHOLD_) stay; other allocators do not notice.
void keep_freed_memory();

}  // namespace sonde
