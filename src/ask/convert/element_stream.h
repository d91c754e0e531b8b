// ElementStream: writes the elements of one tensor into a file: rearranged, decoded or widened, piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dump/formats/cann_elements.h"
#include "ground/tensor/reformat.h"
#include "sonde/result.h"

namespace sonde {

class ElementStream {
 public:
  // `data`: `count` elements of CANN's type `data_type` in C order, which must outlive the stream. `plan` rearranges
  // them; without one they stay in order. Fails if there is not enough memory for decoded elements.
  static Result<ElementStream> make(const std::byte* data, std::int32_t data_type, const CannElements& elements,
                                    std::int64_t count, std::optional<Reformat> plan = std::nullopt);

  DType dtype() const { return elements_.dtype; }  // before it is widened for a file
  std::int64_t count() const { return count_; }    // of the result
  std::size_t item_bytes() const;                  // in the file
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(count_) * item_bytes(); }

  // Writes all of it to `fd` from `offset` on, with up to `threads` threads; with `crc`, on this one alone, and the
  // CRC-32 of the bytes goes there. 0 or an errno.
  int write(int fd, std::uint64_t offset, std::size_t threads, std::uint32_t* crc = nullptr) const;

 private:
  ElementStream() = default;
  bool is_plain() const;
  void produce(std::int64_t first, std::int64_t last, std::vector<std::byte>& scratch, std::byte* out) const;
  int write_part(int fd, std::uint64_t offset, std::int64_t first, std::int64_t last, std::uint32_t* crc) const;

  const std::byte* data_ = nullptr;
  std::int32_t data_type_ = 0;
  CannElements elements_;
  std::int64_t count_ = 0;
  std::optional<Reformat> plan_;
  std::vector<std::byte> decoded_;  // of a tensor that is both decoded and rearranged
};

}  // namespace sonde
