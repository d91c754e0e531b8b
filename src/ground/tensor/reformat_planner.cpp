#include "ground/tensor/reformat_planner.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "ground/base/shape.h"
#include "sonde/tensor.h"

namespace sonde {
namespace {

constexpr std::size_t kN = 0, kC = 1, kD = 2, kH = 3, kW = 4;
constexpr std::int64_t kC04 = 4;
// Absurd block sizes cut each other into many pieces. A plan with more pieces is not real and is refused.
constexpr std::size_t kMostBoxes = 1 << 20;
using Kind = AxisPart::Kind;
using Family = FormatAxes::Family;

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool has_groups(Format format) {
  return format == Format::fractal_z || format == Format::fractal_z_g || format == Format::fractal_z_3d;
}

// Known by a rule of its own: its narrowest dimension holds 4 channels of several pixels.
bool is_fractal_c04(Format format) { return format == Format::fractal_z_c04; }

std::string text(const std::vector<std::int64_t>& shape) { return shape_text(shape, '(', ')'); }

Error refuse(std::string message) { return Error{ErrorCode::invalid_argument, std::move(message)}; }
Error no_rule(Format from, Format to) {
  const auto named = [](Format format) {
    const std::string_view name = name_of(format);
    return name.empty() ? "format " + std::to_string(static_cast<unsigned>(format)) : std::string(name);
  };
  return Error{ErrorCode::unsupported, "no rule is known to turn " + named(from) + " into " + named(to)};
}

std::int64_t product(const std::vector<std::int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{1}, std::multiplies<>());
}

// The places of all axes of a tensor in C order with the dimensions of `axes`; `parts[i][j]` is the size of a part.
std::array<AxisPlace, kAxes> places_of(const FormatAxes& axes, const std::vector<std::vector<std::int64_t>>& parts) {
  std::array<AxisPlace, kAxes> places;
  std::int64_t stride = 1;
  for (std::size_t i = axes.dims.size(); i-- > 0;) {
    for (std::size_t j = axes.dims[i].size(); j-- > 0;) {
      const AxisPart part = axes.dims[i][j];
      AxisPlace& place = places[static_cast<std::size_t>(part.axis)];
      if (part.kind == Kind::element) {
        place.inner += stride;  // twice for a diagonal
        place.block = parts[i][j];
      } else {
        place.outer = stride;
        place.size = parts[i][j];
      }
      stride *= parts[i][j];
    }
  }
  for (AxisPlace& place : places) place.size *= std::max<std::int64_t>(place.block, 1);
  return places;
}

// The C04 formats treat H and W as one axis of pixels; in every other format they are neighbours.
void join_pixels(std::array<AxisPlace, kAxes>& places) {
  const std::int64_t pixels = places[kH].size * places[kW].size;
  const std::int64_t stride = places[kW].size == 1 && places[kH].size > 1 ? places[kH].outer : places[kW].outer;
  places[kH] = {pixels, 0, stride, 0};
  places[kW] = {};
}

// Runs along a part of an axis that no block boundary cuts.
AxisRun straight(const AxisPlace& from, std::int64_t at_from, const AxisPlace& to, std::int64_t at_to,
                 std::int64_t length) {
  return {{{length, from.step(1), to.step(1)}}, from.at(at_from), to.at(at_to)};
}

std::int64_t left_in_block(const AxisPlace& place, std::int64_t x) {
  return place.block == 0 ? std::numeric_limits<std::int64_t>::max() : place.block - x % place.block;
}

bool at_block(const AxisPlace& place, std::int64_t x) { return place.block == 0 || x % place.block == 0; }

}  // namespace

std::int64_t AxisPlace::step(std::int64_t elements) const {
  if (block == 0) return elements * outer;
  return elements % block == 0 ? elements / block * outer : elements * inner;
}

std::vector<AxisRun> runs_of(const AxisPlace& from, std::int64_t from_start, const AxisPlace& to, std::int64_t to_start,
                             std::int64_t length) {
  const std::int64_t large = std::max(from.block, to.block);
  const std::int64_t small = from.block == 0 || to.block == 0 ? large : std::min(from.block, to.block);
  const bool nests = large > 0 && large % small == 0;
  std::vector<AxisRun> runs;
  for (std::int64_t x = 0; x < length;) {
    const std::int64_t f = from_start + x, t = to_start + x;
    const std::int64_t blocks = nests && at_block(from, f) && at_block(to, t) ? (length - x) / large : 0;
    if (blocks > 0) {
      runs.push_back({{{blocks, from.step(large), to.step(large)},
                       {large / small, from.step(small), to.step(small)},
                       {small, from.step(1), to.step(1)}},
                      from.at(f),
                      to.at(t)});
      x += blocks * large;
    } else {
      const std::int64_t part = std::min({left_in_block(from, f), left_in_block(to, t), length - x});
      runs.push_back(straight(from, f, to, t, part));
      x += part;
    }
  }
  return runs;
}

GroupPacking GroupPacking::of(std::int64_t groups, std::int64_t channels, std::int64_t filters, std::int64_t c0,
                              std::int64_t n0) {
  const std::int64_t by_channels = std::lcm(channels, c0) / channels;
  const std::int64_t by_filters = std::lcm(filters, n0) / filters;
  return {groups, std::min(std::lcm(by_channels, by_filters), groups), channels, filters};
}

ReformatPlanner::ReformatPlanner(const StoredShape& from, Format to, const std::optional<LogicalShape>& real,
                                 std::int64_t block)
    : stored_(from), to_(to), real_(real), block_(block) {
  stored_.format = named_for_cann(stored_.format, stored_.shape.size());
  if (real_) real_->order = named_for_cann(real_->order, real_->shape.size());
  to_ = named_for_cann(to_, real_ ? real_->shape.size() : stored_.shape.size());
  if (to_ == Format::nc1hwc0_c04) block_ = kC04;
}

Result<Reformat> ReformatPlanner::plan() {
  if (!can_reformat(stored_.format, to_)) return no_rule(stored_.format, to_);
  if (!has_sane_strides(stored_.shape) || (real_ && !has_sane_strides(real_->shape)) || block_ < 1) {
    return refuse("shape " + text(stored_.shape) + (real_ ? " or " + text(real_->shape) : "") +
                  " has a size that is negative, or more elements than memory can have");
  }
  from_axes_ = axes_of(stored_.format);
  to_axes_ = axes_of(to_);
  // The formats of a matrix read any plain array as a matrix, whatever its axes are called.
  const bool is_matrix = (from_axes_ != nullptr && from_axes_->family == Family::matrix) ||
                         (to_axes_ != nullptr && to_axes_->family == Family::matrix && to_ != Format::nd);
  if (is_matrix) {
    if (!from_axes_->has_blocks()) from_axes_ = axes_of(Format::nd);
    if (!to_axes_->has_blocks()) to_axes_ = axes_of(Format::nd);
    if (Status status = read_matrix(); !status) return status.error();
    if (Status status = lay_matrix(); !status) return status.error();
    return build();
  }
  if (to_ == Format::nd && !is_blocked(stored_.format)) return Reformat::reshape(stored_.shape);
  if (to_ == Format::nd) {  // the program's own order
    to_ = real_ && real_->order != Format::nd && !is_blocked(real_->order)               ? real_->order
          : stored_.format == Format::ndc1hwc0 || stored_.format == Format::fractal_z_3d ? Format::ncdhw
                                                                                         : Format::nchw;
    to_axes_ = axes_of(to_);
  }
  if (Status status = read_real(); !status) return status.error();
  if (Status status = read_image(); !status) return status.error();
  if (Status status = lay_image(); !status) return status.error();
  return build();
}

// The sizes of an image's axes without padding.
Status ReformatPlanner::read_real() {
  if (!real_) return {};
  Format order = real_->order;
  if (order == Format::nd) order = is_blocked(to_) ? Format::nchw : to_;
  const FormatAxes* axes = axes_of(order);
  if (axes == nullptr || axes->has_blocks() || axes->dims.size() != real_->shape.size()) {
    return refuse("shape " + text(real_->shape) + " is not a shape in " + std::string(name_of(order)) + " order");
  }
  AxisSizes sizes = {1, 1, 1, 1, 1};
  for (std::size_t i = 0; i < axes->dims.size(); ++i) {
    sizes[static_cast<std::size_t>(axes->dims[i][0].axis)] = real_->shape[i];
  }
  real_sizes_ = sizes;
  return {};
}

// The places of the stored elements, and the sizes of the axes.
Status ReformatPlanner::read_image() {
  static const FormatAxes kFractalC04 = {Format::fractal_z_c04,
                                         Family::image,
                                         {{{Axis::h, Kind::block}},
                                          {{Axis::n, Kind::block}},
                                          {{Axis::n, Kind::element}},
                                          {{Axis::h, Kind::element}, {Axis::c, Kind::whole}}}};
  const bool is_c04 = is_fractal_c04(stored_.format);
  const FormatAxes& axes = is_c04 ? kFractalC04 : *from_axes_;
  const std::string name(name_of(stored_.format));
  if (axes.dims.size() != stored_.shape.size()) {
    return refuse("shape " + text(stored_.shape) + " has " + std::to_string(stored_.shape.size()) + " dimensions; " +
                  name + " has " + std::to_string(axes.dims.size()));
  }
  std::vector<std::vector<std::int64_t>> parts;
  std::int64_t groups_of_blocks = 1;
  for (std::size_t i = 0; i < axes.dims.size(); ++i) {
    std::vector<std::int64_t>& sizes = parts.emplace_back();
    if (axes.dims[i].size() == 1) {
      sizes.push_back(stored_.shape[i]);
      continue;
    }
    if (is_c04) {
      sizes = {stored_.shape[i] / kC04, kC04};
      if (stored_.shape[i] % kC04 != 0) return refuse("shape " + text(stored_.shape) + " does not fit " + name);
      continue;
    }
    // Several axes are in one dimension: only the real shape gives the size of each.
    if (!real_sizes_) return refuse(name + " cannot be taken apart without its real shape");
    std::int64_t others = 1;
    for (const AxisPart part : axes.dims[i]) {
      const std::int64_t size = (*real_sizes_)[static_cast<std::size_t>(part.axis)];
      sizes.push_back(size);
      if (part.kind == Kind::whole) others *= size;
    }
    if (others == 0 || stored_.shape[i] % others != 0) {
      return refuse("shape " + text(stored_.shape) + " of " + name + " does not fit the real shape " +
                    text(real_->shape));
    }
    for (std::size_t j = 0; j < sizes.size(); ++j) {
      if (axes.dims[i][j].kind == Kind::block) sizes[j] = stored_.shape[i] / others;
    }
  }
  from_.shape = stored_.shape;
  const bool is_grouped = stored_.groups >= 2 && has_groups(stored_.format);
  if (is_grouped && stored_.shape[2] > 0 && stored_.shape[3] > 0) {
    const std::int64_t filters = (*real_sizes_)[kN] / stored_.groups;
    if ((*real_sizes_)[kN] % stored_.groups != 0 || filters == 0 || (*real_sizes_)[kC] == 0) {
      return refuse(std::to_string((*real_sizes_)[kN]) + " filters in " + std::to_string(stored_.groups) + " groups");
    }
    from_groups_ = GroupPacking::of(stored_.groups, (*real_sizes_)[kC], filters, stored_.shape[3], stored_.shape[2]);
    groups_of_blocks = from_groups_->blocks();
    // D comes before C1, the blocks of groups before both.
    std::vector<std::int64_t>& first = parts[0];
    for (std::size_t j = 0; j < first.size(); ++j) {
      if (axes.dims[0][j].kind != Kind::block) continue;
      if (first[j] % groups_of_blocks != 0) {
        return refuse("shape " + text(stored_.shape) + " of " + name + " does not fit " +
                      std::to_string(stored_.groups) + " groups");
      }
      first[j] /= groups_of_blocks;
    }
  }
  from_.places = places_of(axes, parts);
  from_.group_block_elements = product(stored_.shape) / groups_of_blocks;
  if (is_c04 && from_.places[kC].size != kC04) return refuse("shape " + text(stored_.shape) + " does not fit " + name);
  // FRACTAL_Z_C04 counts pixels; the other side gives H and W, and so does the real shape.
  if (is_c04 && !real_sizes_) return refuse(name + " cannot be taken apart without its real shape");
  for (std::size_t a = 0; a < kAxes; ++a) sizes_[a] = real_sizes_ ? (*real_sizes_)[a] : from_.places[a].size;
  return check_sizes();
}

Status ReformatPlanner::check_sizes() {
  if (!real_sizes_) return {};
  for (std::size_t a = 0; a < kAxes; ++a) {
    std::int64_t stored = from_.places[a].size, wanted = (*real_sizes_)[a];
    if (is_fractal_c04(stored_.format)) {
      if (a == kW) continue;
      if (a == kH) wanted *= (*real_sizes_)[kW];
    }
    if (from_groups_ && (a == kC || a == kN)) wanted *= from_groups_->together;
    if (from_groups_ && a == kN) wanted /= from_groups_->groups;
    if (wanted > stored) {
      return refuse("the real shape " + text(real_->shape) + " is larger than the stored " +
                    std::string(name_of(stored_.format)) + " " + text(stored_.shape));
    }
  }
  return {};
}

// The shape and the places of the result.
Status ReformatPlanner::lay_image() {
  static const std::vector<AxisPart> kPixelBlock = {{Axis::h, Kind::element}, {Axis::c, Kind::whole}};
  AxisSizes sizes = sizes_;
  std::int64_t blocks_of_groups = 1;
  if (stored_.groups >= 2 && has_groups(to_)) {
    const std::int64_t filters = sizes[kN] / stored_.groups;
    if (sizes[kN] % stored_.groups != 0 || filters == 0 || sizes[kC] == 0) {
      return refuse(std::to_string(sizes[kN]) + " filters in " + std::to_string(stored_.groups) + " groups");
    }
    to_groups_ = GroupPacking::of(stored_.groups, sizes[kC], filters, block_, block_);
    sizes[kC] *= to_groups_->together;
    sizes[kN] = filters * to_groups_->together;
    blocks_of_groups = to_groups_->blocks();
  }
  std::vector<std::vector<std::int64_t>> parts;
  to_side_.shape.clear();
  if (is_fractal_c04(to_)) {
    if (sizes[kC] > kC04 || block_ % kC04 != 0) {
      return refuse("FRACTAL_Z_C04 holds up to 4 channels, not " + std::to_string(sizes[kC]));
    }
    const std::int64_t pixels = block_ / kC04;
    const FormatAxes axes = {
        to_,
        Family::image,
        {{{Axis::h, Kind::block}}, {{Axis::n, Kind::block}}, {{Axis::n, Kind::element}}, kPixelBlock}};
    to_side_.shape = {ceil_div(sizes[kH] * sizes[kW], pixels), ceil_div(sizes[kN], block_), block_, block_};
    parts = {{to_side_.shape[0]}, {to_side_.shape[1]}, {block_}, {pixels, kC04}};
    if (!has_sane_strides(to_side_.shape)) return refuse("the result would have more elements than memory can have");
    to_side_.places = places_of(axes, parts);
  } else {
    for (std::size_t a = 0; a < kAxes; ++a) {
      if (sizes[a] > 1 && !to_axes_->has(static_cast<Axis>(a))) {
        return refuse(std::string(name_of(to_)) + " has no axis " + std::string(1, "NCDHW"[a]) + ", which has " +
                      std::to_string(sizes[a]) + " elements");
      }
    }
    for (const auto& dim : to_axes_->dims) {
      std::vector<std::int64_t>& part_sizes = parts.emplace_back();
      for (const AxisPart part : dim) {
        const auto axis = static_cast<std::size_t>(part.axis);
        part_sizes.push_back(part.kind == Kind::element ? block_
                             : part.kind == Kind::block ? ceil_div(sizes[axis], block_)
                                                        : sizes[axis]);
      }
      std::vector<std::int64_t> all = to_side_.shape;
      all.insert(all.end(), part_sizes.begin(), part_sizes.end());
      all.push_back(blocks_of_groups);
      if (!has_sane_strides(all)) return refuse("the result would have more elements than memory can have");
      to_side_.shape.push_back(product(part_sizes));
    }
    to_side_.places = places_of(*to_axes_, parts);
    to_side_.shape[0] *= blocks_of_groups;
  }
  to_side_.group_block_elements = product(to_side_.shape) / std::max<std::int64_t>(blocks_of_groups, 1);
  if (is_fractal_c04(to_) != is_fractal_c04(stored_.format)) {
    join_pixels(is_fractal_c04(to_) ? from_.places : to_side_.places);
  }
  if (is_fractal_c04(to_) || is_fractal_c04(stored_.format)) {
    sizes_[kH] *= sizes_[kW];
    sizes_[kW] = 1;
  }
  return {};
}

// Leading dimensions, rows and columns; a vector is a matrix of one row.
Status ReformatPlanner::read_matrix() {
  const auto take = [](const std::vector<std::int64_t>& shape, std::vector<std::int64_t>& leads, AxisSizes& sizes) {
    const std::size_t rank = shape.size();
    leads.assign(shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(rank, 2)));
    sizes = {product(leads), 1, 1, rank > 1 ? shape[rank - 2] : 1, rank > 0 ? shape[rank - 1] : 1};
  };
  const std::vector<std::int64_t>& shape = stored_.shape;
  from_.shape = shape;
  std::vector<std::vector<std::int64_t>> parts;
  if (from_axes_->has_blocks()) {
    if (shape.size() < 4) {
      return refuse("shape " + text(shape) + " has " + std::to_string(shape.size()) + " dimensions; " +
                    std::string(name_of(stored_.format)) + " has 4 or more");
    }
    leads_.assign(shape.begin(), shape.end() - 4);
    parts.push_back({product(leads_)});
    for (std::size_t i = shape.size() - 4; i < shape.size(); ++i) parts.push_back({shape[i]});
  } else {
    take(shape, leads_, sizes_);
    parts = {{sizes_[kN]}, {sizes_[kH]}, {sizes_[kW]}};
  }
  from_.places = places_of(*from_axes_, parts);
  for (const std::size_t a : {kN, kH, kW}) sizes_[a] = from_.places[a].size;
  if (!real_) return {};
  AxisSizes real;
  take(real_->shape, leads_, real);
  const bool is_cut = from_axes_->has_blocks() && real[kN] != sizes_[kN];
  if (is_cut || real[kN] > sizes_[kN] || real[kH] > sizes_[kH] || real[kW] > sizes_[kW]) {
    return refuse("the real shape " + text(real_->shape) + " does not fit the stored " +
                  std::string(name_of(stored_.format)) + " " + text(shape));
  }
  sizes_ = real;
  return {};
}

Status ReformatPlanner::lay_matrix() {
  std::vector<std::vector<std::int64_t>> parts;
  if (to_axes_->has_blocks()) {
    for (const auto& dim : to_axes_->dims) {
      const auto axis = static_cast<std::size_t>(dim[0].axis);
      parts.push_back({dim[0].kind == Kind::element ? block_
                       : dim[0].kind == Kind::block ? ceil_div(sizes_[axis], block_)
                                                    : sizes_[axis]});
    }
    to_side_.shape = leads_;
    for (std::size_t i = 1; i < parts.size(); ++i) to_side_.shape.push_back(parts[i][0]);
    if (!has_sane_strides(to_side_.shape)) return refuse("the result would have more elements than memory can have");
  } else {
    parts = {{sizes_[kN]}, {sizes_[kH]}, {sizes_[kW]}};
    to_side_.shape = real_ ? real_->shape : leads_;
    if (!real_) to_side_.shape.insert(to_side_.shape.end(), {sizes_[kH], sizes_[kW]});
  }
  to_side_.places = places_of(*to_axes_, parts);
  return {};
}

bool ReformatPlanner::add_boxes(Reformat& plan, const AxisSizes& from_start, const AxisSizes& to_start,
                                const AxisSizes& length, std::int64_t from_offset, std::int64_t to_offset) const {
  std::vector<CopyBox> boxes(1);
  boxes[0].from_offset = from_offset;
  boxes[0].to_offset = to_offset;
  for (std::size_t a = 0; a < kAxes; ++a) {
    const AxisPlace &from = from_.places[a], &to = to_side_.places[a];
    const std::int64_t small = std::min(from.block, to.block);
    if (small > 0 && length[a] / small > static_cast<std::int64_t>(kMostBoxes)) return false;
    const std::vector<AxisRun> runs = runs_of(from, from_start[a], to, to_start[a], length[a]);
    if (plan.boxes_.size() + boxes.size() * runs.size() > kMostBoxes) return false;
    std::vector<CopyBox> next;
    for (const CopyBox& box : boxes) {
      for (const AxisRun& run : runs) {
        CopyBox& longer = next.emplace_back(box);
        longer.dims.insert(longer.dims.end(), run.dims.begin(), run.dims.end());
        longer.from_offset += run.from_offset;
        longer.to_offset += run.to_offset;
      }
    }
    boxes = std::move(next);
  }
  for (CopyBox& box : boxes) {
    box.simplify();
    plan.boxes_.push_back(std::move(box));
  }
  return true;
}

Result<Reformat> ReformatPlanner::build() {
  Reformat plan;
  plan.shape_ = to_side_.shape;
  plan.elements_ = product(plan.shape_);
  plan.from_elements_ = product(from_.shape);
  plan.covered_ = 1;
  for (const std::int64_t size : sizes_) plan.covered_ *= size;
  if (plan.covered_ == 0) return plan;
  if (plan.from_elements_ == 0) {  // blocks of no element, in a damaged file
    return refuse("shape " + text(stored_.shape) + " of " + std::string(name_of(stored_.format)) + " has no elements");
  }
  const std::int64_t groups = from_groups_ || to_groups_ ? stored_.groups : 1;
  AxisSizes length = sizes_;
  length[kN] /= groups;
  for (std::int64_t g = 0; g < groups; ++g) {
    std::int64_t from_offset = 0, to_offset = 0;
    const auto start = [&](const std::optional<GroupPacking>& packing, const FormatSide& side, std::int64_t& offset) {
      AxisSizes at = {g * length[kN], 0, 0, 0, 0};
      if (!packing) return at;
      at[kN] = g % packing->together * packing->filters;
      at[kC] = g % packing->together * packing->channels;
      offset = g / packing->together * side.group_block_elements;
      return at;
    };
    const AxisSizes from_start = start(from_groups_, from_, from_offset);
    const AxisSizes to_start = start(to_groups_, to_side_, to_offset);
    if (groups > static_cast<std::int64_t>(kMostBoxes) ||
        !add_boxes(plan, from_start, to_start, length, from_offset, to_offset)) {
      return Error{ErrorCode::unsupported, "shape " + text(stored_.shape) + " falls into too many pieces"};
    }
  }
  return plan;
}

// Whether the real shape fits this stored one exactly: nothing is left over, and no block is without an element.
bool ReformatPlanner::fits_exactly() {
  from_axes_ = axes_of(stored_.format);
  if ((from_axes_ == nullptr && !is_fractal_c04(stored_.format)) || !has_sane_strides(stored_.shape) ||
      !has_sane_strides(real_->shape)) {
    return false;
  }
  if (!read_real() || !read_image()) return false;
  for (std::size_t a = 0; a < kAxes; ++a) {
    std::int64_t wanted = sizes_[a];
    if (is_fractal_c04(stored_.format) && a == kH) wanted *= sizes_[kW];
    if (is_fractal_c04(stored_.format) && (a == kW || a == kC)) continue;
    if (from_groups_ && a == kC) wanted *= from_groups_->together;
    if (from_groups_ && a == kN) wanted = from_groups_->filters * from_groups_->together;
    const AxisPlace& place = from_.places[a];
    if (wanted > place.size || wanted <= place.size - std::max<std::int64_t>(place.block, 1)) return false;
  }
  return true;
}

bool is_blocked(Format format) {
  const FormatAxes* axes = axes_of(format);
  return is_fractal_c04(format) || (axes != nullptr && axes->has_blocks());
}

bool can_reformat(Format from, Format to) {
  if (from == Format::default_format || to == Format::default_format) from = to = Format::nd;
  const FormatAxes* from_axes = axes_of(from);
  const FormatAxes* to_axes = axes_of(to);
  if ((from_axes == nullptr && !is_fractal_c04(from)) || (to_axes == nullptr && !is_fractal_c04(to))) return false;
  const auto is_matrix = [](const FormatAxes* axes) { return axes != nullptr && axes->family == Family::matrix; };
  // The axes of an ND tensor are unknown.
  if (from == Format::nd) return is_matrix(to_axes);
  if (is_matrix(from_axes)) return is_matrix(to_axes) || !is_blocked(to);
  if (is_matrix(to_axes) && to != Format::nd) return !is_blocked(from);
  return true;
}

Result<Reformat> plan_reformat(const StoredShape& from, Format to, const std::optional<LogicalShape>& real,
                               std::int64_t block) {
  return ReformatPlanner(from, to, real, block).plan();
}

std::optional<LogicalShape> find_order(const StoredShape& stored, std::span<const std::int64_t> original_shape,
                                       std::optional<Format> hint) {
  const FormatAxes* axes = axes_of(stored.format);
  const LogicalShape shape{Format::nd, {original_shape.begin(), original_shape.end()}};
  if (axes != nullptr && axes->family == Family::matrix) return shape;
  std::vector<Format> orders = {Format::nchw,  Format::nhwc,  Format::hwcn,  Format::chwn, Format::ncdhw,
                                Format::ndhwc, Format::dhwcn, Format::dhwnc, Format::nc,   Format::ncl};
  if (hint && !is_blocked(*hint)) orders.insert(orders.begin(), *hint);
  for (const Format order : orders) {
    LogicalShape candidate{order, shape.shape};
    if (order != Format::nd && ReformatPlanner(stored, order, candidate, 16).fits_exactly()) return candidate;
  }
  return std::nullopt;
}

}  // namespace sonde
