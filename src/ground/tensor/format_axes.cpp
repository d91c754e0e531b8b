#include "ground/tensor/format_axes.h"

#include <algorithm>

namespace sonde {
namespace {

struct Row {
  Format format;
  std::string_view text;
};

// Dimensions from the widest to the narrowest; adjacent letters are one dimension. `C1` counts blocks of the axis C,
// `C0` the elements of a block. C0 twice is a diagonal: elements outside it are zeros.
constexpr Row kImages[] = {
    {Format::nchw, "N C H W"},
    {Format::nhwc, "N H W C"},
    {Format::hwcn, "H W C N"},
    {Format::chwn, "C H W N"},
    {Format::filter_hwck, "H W C N"},
    {Format::ncl, "N C W"},
    {Format::nc, "N C"},
    {Format::cn, "C N"},
    {Format::ncdhw, "N C D H W"},
    {Format::ndhwc, "N D H W C"},
    {Format::dhwcn, "D H W C N"},
    {Format::dhwnc, "D H W N C"},
    {Format::nc1hwc0, "N C1 H W C0"},
    {Format::nc1hwc0_c04, "N C1 H W C0"},
    {Format::nhwc1c0, "N H W C1 C0"},
    {Format::c1hwc0, "C1 H W C0"},
    {Format::c1hwnc0, "C1 H W N C0"},
    {Format::c1hwncoc0, "C1 H W N C0 C0"},
    {Format::ndc1hwc0, "N D C1 H W C0"},
    {Format::fractal_z, "C1HW N1 N0 C0"},
    {Format::fractal_z_g, "C1HW N1 N0 C0"},
    {Format::fractal_z_3d, "DC1HW N1 N0 C0"},
};
constexpr Row kMatrices[] = {
    {Format::nd, "N H W"},
    {Format::fractal_nz, "N W1 H1 H0 W0"},
    {Format::fractal_zz, "N H1 W1 H0 W0"},
};

FormatAxes parse(const Row& row, FormatAxes::Family family) {
  FormatAxes axes{row.format, family, {{}}};
  for (const char letter : row.text) {
    if (letter == ' ') {
      axes.dims.emplace_back();
    } else if (letter == '0' || letter == '1') {
      axes.dims.back().back().kind = letter == '0' ? AxisPart::Kind::element : AxisPart::Kind::block;
    } else {
      axes.dims.back().push_back({static_cast<Axis>(std::string_view("NCDHW").find(letter)), AxisPart::Kind::whole});
    }
  }
  return axes;
}

std::vector<FormatAxes> all() {
  std::vector<FormatAxes> table;
  for (const Row& row : kImages) table.push_back(parse(row, FormatAxes::Family::image));
  for (const Row& row : kMatrices) table.push_back(parse(row, FormatAxes::Family::matrix));
  return table;
}

}  // namespace

bool FormatAxes::has_blocks() const {
  return std::ranges::any_of(dims, [](const auto& dim) {
    return std::ranges::any_of(dim, [](AxisPart part) { return part.kind != AxisPart::Kind::whole; });
  });
}

bool FormatAxes::has(Axis axis) const {
  return std::ranges::any_of(
      dims, [&](const auto& dim) { return std::ranges::find(dim, axis, &AxisPart::axis) != dim.end(); });
}

const FormatAxes* axes_of(Format format) {
  static const std::vector<FormatAxes>* const table = new std::vector<FormatAxes>(all());
  const auto found = std::ranges::find(*table, format, &FormatAxes::format);
  return found == table->end() ? nullptr : &*found;
}

}  // namespace sonde
