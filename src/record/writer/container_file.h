// The container of one op's record: its header, and how it is written to disk.
#pragma once

#include <cstddef>
#include <cstdint>

#include "dump/formats/container.h"
#include "dump/journal/record.h"
#include "ground/files/files.h"

namespace sonde {

// True if a tensor of `record` has bytes; a record without bytes gets no file.
bool has_container(const Record& record);
// The slots of a side are in order from 0. A slot without a tensor or without bytes keeps its place as `data_type` 0 of
// 0 bytes. A side without selected tensors is left out.
Container container_of(const Record& record);
// Writes header and bytes to `file`. Returns 0 or an errno.
int write_container(const Record& record, AsideFile& file, std::uint64_t& tensor_bytes);
// The same into memory, with `head` as its header.
void put_container(const Record& record, std::string_view head, std::byte* out);

// The record that CANN writes beside an op that overflowed, 2048 bytes (docs/format.md, "Overflow records").
std::string overflow_record(const Record& record);
// The same as MindSpore's JSON: one line, keys sorted.
std::string overflow_json(const Record& record);
// A container with that record as its output.
std::string overflow_container(const Record& record);

}  // namespace sonde
