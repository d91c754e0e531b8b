// The .pt file of one tensor, as torch.save writes it and torch.load(weights_only=True) reads it; written without
// torch.
//
// A zip archive whose entries are not compressed: `archive/data.pkl`, a pickle that calls only torch's function to
// rebuild a tensor; `archive/data/0`, the elements; `archive/byteorder`, `archive/version`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sonde/dtype.h"

namespace sonde {

// The bytes around the elements of a file.
struct PtFrame {
  struct Entry {  // of the archive
    std::string name;
    std::uint32_t crc = 0;
    std::uint64_t size = 0, offset = 0;
  };
  std::string head;  // before them
  std::string tail;  // after them; finish_pt makes it
  std::vector<Entry> entries;
  std::size_t crc_offset = 0;  // in `head`: the place of the elements' CRC
};

// For `bytes` bytes of elements of a type that .npy has, or that is widened to such a type. An empty head for
// `undefined`.
PtFrame pt_frame(DType dtype, std::span<const std::int64_t> shape, std::uint64_t bytes);
// Puts the CRC-32 of the elements into `head`, and makes `tail`.
void finish_pt(PtFrame& frame, std::uint32_t crc);

}  // namespace sonde
