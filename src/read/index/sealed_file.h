// SealedFile: a database of SQLite that is followed by a checksum of each of its pages, so that a reader checks only
// the pages that it reads. Other programs do not see the checksums: SQLite ignores what follows the last page.
//
// After the pages, in the byte order of the machine: a checksum (XXH3, 64 bits) of each page, 16 bytes `Sonde page
// seals`, the bytes of a page (64 bits), the number of pages (64 bits), and a checksum of all of this.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

#include "ground/files/files.h"
#include "sonde/result.h"

namespace sonde {

// Appends the checksums to a closed database.
Status seal_index(const std::filesystem::path& file);
// Checks every page, on all cores. Fails like SealedFile::open.
Status check_seal(const std::filesystem::path& file);

class SealedFile {
 public:
  // Checks the checksums, but no page. Fails with `not_found`, or with `corrupt` if the file is not a sealed database.
  static Result<SealedFile> open(const std::filesystem::path& file);

  std::uint64_t bytes() const { return page_bytes_ * checksums_.size(); }  // of the database
  std::size_t page_bytes() const { return page_bytes_; }
  std::size_t pages() const { return checksums_.size(); }
  // False if the page cannot be read, or is not as it was sealed. `out`: page_bytes() bytes.
  bool read_page(std::size_t page, char* out) const;

 private:
  Fd fd_;
  std::size_t page_bytes_ = 0;
  std::vector<std::uint64_t> checksums_;
};

}  // namespace sonde
