// The work of plan_reformat: the place of each axis in a stored tensor, and the boxes that copy it to another place.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ground/tensor/format_axes.h"
#include "ground/tensor/reformat.h"
#include "sonde/result.h"

namespace sonde {

// The places of the elements along one axis. Element x is at (x / block) * outer + (x % block) * inner; without blocks,
// at x * outer.
struct AxisPlace {
  std::int64_t size = 1;   // padding included
  std::int64_t block = 0;  // 0: no blocks
  std::int64_t outer = 0, inner = 0;

  std::int64_t at(std::int64_t x) const { return block == 0 ? x * outer : x / block * outer + x % block * inner; }
  // The distance from an element to the one `elements` further; for 1 within a block, and for whole blocks from a
  // block's beginning.
  std::int64_t step(std::int64_t elements) const;
};

// A part of an axis that is one or more dimensions of a box.
struct AxisRun {
  std::vector<CopyBox::Dim> dims;
  std::int64_t from_offset = 0, to_offset = 0;
};

// Elements [from_start, + length) of one place to [to_start, + length) of the other, in as few runs as possible.
std::vector<AxisRun> runs_of(const AxisPlace& from, std::int64_t from_start, const AxisPlace& to, std::int64_t to_start,
                             std::int64_t length);

// One side of a rearrangement.
struct FormatSide {
  std::vector<std::int64_t> shape;        // as it is stored
  std::array<AxisPlace, kAxes> places;    // by Axis
  std::int64_t group_block_elements = 0;  // FRACTAL_Z: from one block of groups to the next
};

// How FRACTAL_Z packs the groups of a convolution's weight: `together` of them share a block.
struct GroupPacking {
  std::int64_t groups = 1, together = 1;
  std::int64_t channels = 0, filters = 0;  // of one group

  static GroupPacking of(std::int64_t groups, std::int64_t channels, std::int64_t filters, std::int64_t c0,
                         std::int64_t n0);
  std::int64_t blocks() const { return (groups + together - 1) / together; }
};

class ReformatPlanner {
 public:
  ReformatPlanner(const StoredShape& from, Format to, const std::optional<LogicalShape>& real, std::int64_t block);
  Result<Reformat> plan();
  bool fits_exactly();

 private:
  Status read_real();
  Status read_image();
  Status read_matrix();
  Status read_grouped();
  Status lay_image();
  Status lay_matrix();
  Status check_sizes();
  Result<Reformat> build();
  bool add_boxes(Reformat& plan, const AxisSizes& from_start, const AxisSizes& to_start, const AxisSizes& length,
                 std::int64_t from_offset, std::int64_t to_offset) const;

  StoredShape stored_;
  Format to_;
  std::optional<LogicalShape> real_;
  std::int64_t block_;
  const FormatAxes* from_axes_ = nullptr;
  const FormatAxes* to_axes_ = nullptr;
  AxisSizes sizes_ = {1, 1, 1, 1, 1};  // of the result's axes, without padding
  std::optional<AxisSizes> real_sizes_;
  std::vector<std::int64_t> leads_;  // of a matrix: all dimensions but the last two
  FormatSide from_, to_side_;
  std::optional<GroupPacking> from_groups_, to_groups_;
};

}  // namespace sonde
