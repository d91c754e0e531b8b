// Memory of the device and pinned memory of the host. Both are kept in caches that give a freed block to the next
// program that asks for its size, at once: what still reads it without having said so reads something else.
#pragma once

#include <c10/core/Allocator.h>

#include <cstddef>

#include "streams.h"

namespace testdev {

c10::Allocator& device_allocator();
c10::Allocator& pinned_allocator();

// The block of `data` may be used again only after what `stream` has enqueued when the block is freed.
void record_use(const c10::DataPtr& data, Stream& stream);

// The device of an address in device memory.
int device_of(const void* address);

bool is_pinned(const void* address);
void record_pinned_use(const void* address, Stream& stream);

// Gives back what the cache keeps, after all streams have done their work.
void empty_cache(int device);

}  // namespace testdev
