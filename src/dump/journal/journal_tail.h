// JournalTail: what a journal got since the last look, while a run still appends to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string_view>

#include "dump/journal/journal.h"

namespace sonde {

class JournalTail {
 public:
  // `chunk_bytes`: how much of the file is read at once, if no entry is longer.
  explicit JournalTail(std::filesystem::path file, std::size_t chunk_bytes = std::size_t{4} << 20)
      : file_(std::move(file)), chunk_bytes_(chunk_bytes) {}

  enum class Look : std::uint8_t {
    as_before,  // the rest follows what was read before
    anew,       // the file is shorter than it was, so another one: it is read from its beginning
    missing,    // it cannot be read
  };
  // Calls `take` with the new entries, in pieces. A piece without the header of a run continues the run before it; its
  // gaps are damage. An entry that is not complete yet is read at a later look.
  Look read(const std::function<void(Journal&)>& take);

  std::uint64_t offset() const { return offset_; }  // everything before it was read
  std::uint64_t size() const { return size_; }      // of the file at the last look

 private:
  std::uint64_t take_from(std::string_view bytes, const std::function<void(Journal&)>& take) const;

  std::filesystem::path file_;
  std::size_t chunk_bytes_;
  std::uint64_t offset_ = 0, size_ = 0;
};

}  // namespace sonde
