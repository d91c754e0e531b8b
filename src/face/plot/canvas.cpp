#include "face/plot/canvas.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "face/plot/font.h"

namespace sonde {
namespace {

constexpr int kTextScale = 2;

using Rgb = std::array<std::uint8_t, 3>;

constexpr std::array<Rgb, kFirstShade> kFixed = {{
    {255, 255, 255},  // white
    {0, 0, 0},        // black
    {130, 130, 130},  // grey
    {225, 225, 225},  // pale
    {255, 0, 220},    // NaN
    {230, 0, 0},      // +inf
    {0, 200, 255},    // -inf
    {255, 255, 255},
    {31, 90, 180},  // lines
    {225, 110, 10},
    {35, 140, 50},
    {150, 80, 190},
    {140, 85, 60},
    {215, 60, 140},
    {90, 90, 90},
    {0, 150, 150},
}};

// Even steps of brightness from dark violet to yellow, distinct also without colours.
constexpr std::array<Rgb, 9> kShadeStops = {{
    {68, 1, 84},
    {71, 44, 122},
    {59, 81, 139},
    {44, 113, 142},
    {33, 144, 141},
    {39, 173, 129},
    {92, 200, 99},
    {170, 220, 50},
    {253, 231, 37},
}};

void append_u32(std::string& out, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void append_chunk(std::string& out, std::string_view type, const std::string& data) {
  append_u32(out, static_cast<std::uint32_t>(data.size()));
  const std::size_t start = out.size();
  out.append(type).append(data);
  const auto* bytes = reinterpret_cast<const Bytef*>(out.data() + start);
  append_u32(out, static_cast<std::uint32_t>(::crc32(0, bytes, static_cast<uInt>(out.size() - start))));
}

}  // namespace

std::uint8_t shade_of(double part) {
  const int shade = static_cast<int>(std::lround(std::clamp(part, 0.0, 1.0) * (kShades - 1)));
  return static_cast<std::uint8_t>(kFirstShade + shade);
}

Rgb rgb_of(std::uint8_t colour) {
  if (colour < kFirstShade) return kFixed[colour];
  const double at = (colour - kFirstShade) * static_cast<double>(kShadeStops.size() - 1) / (kShades - 1);
  const auto stop = std::min(static_cast<std::size_t>(at), kShadeStops.size() - 2);
  const double part = at - static_cast<double>(stop);
  Rgb rgb;
  for (std::size_t i = 0; i < rgb.size(); ++i) {
    rgb[i] =
        static_cast<std::uint8_t>(std::lround(kShadeStops[stop][i] * (1 - part) + kShadeStops[stop + 1][i] * part));
  }
  return rgb;
}

int text_width(std::string_view text) { return static_cast<int>(text.size()) * kCharacterWidth; }

Canvas::Canvas(int width, int height)
    : width_(width),
      height_(height),
      pixels_(static_cast<std::size_t>(width) * static_cast<std::size_t>(height), kWhite) {}

void Canvas::set(int x, int y, std::uint8_t colour) {
  if (x < 0 || y < 0 || x >= width_ || y >= height_) return;
  pixels_[static_cast<std::size_t>(y) * static_cast<std::size_t>(width_) + static_cast<std::size_t>(x)] = colour;
}

void Canvas::fill(int x, int y, int width, int height, std::uint8_t colour) {
  for (int row = y; row < y + height; ++row) {
    for (int column = x; column < x + width; ++column) set(column, row, colour);
  }
}

void Canvas::frame(int x, int y, int width, int height, std::uint8_t colour) {
  fill(x - 1, y - 1, width + 2, 1, colour);
  fill(x - 1, y + height, width + 2, 1, colour);
  fill(x - 1, y, 1, height, colour);
  fill(x + width, y, 1, height, colour);
}

void Canvas::line(int x0, int y0, int x1, int y1, std::uint8_t colour) {
  const int steps = std::max({std::abs(x1 - x0), std::abs(y1 - y0), 1});
  for (int i = 0; i <= steps; ++i) {
    const int x = x0 + static_cast<int>(std::lround(static_cast<double>(x1 - x0) * i / steps));
    const int y = y0 + static_cast<int>(std::lround(static_cast<double>(y1 - y0) * i / steps));
    fill(x, y, 2, 2, colour);
  }
}

void Canvas::text(int x, int y, std::string_view text, std::uint8_t colour) {
  for (const char c : text) {
    const auto& glyph =
        kGlyphs[c >= ' ' && c <= '~' ? static_cast<std::size_t>(c - ' ') : static_cast<std::size_t>('?' - ' ')];
    for (int column = 0; column < kGlyphWidth; ++column) {
      for (int row = 0; row < kGlyphHeight; ++row) {
        if ((glyph[static_cast<std::size_t>(column)] >> row & 1) != 0) {
          fill(x + column * kTextScale, y + row * kTextScale, kTextScale, kTextScale, colour);
        }
      }
    }
    x += kCharacterWidth;
  }
}

Result<std::string> Canvas::png() const {
  std::string rows;  // each with a filter byte before it: none
  rows.reserve(pixels_.size() + static_cast<std::size_t>(height_));
  for (int y = 0; y < height_; ++y) {
    rows += '\0';
    rows.append(
        reinterpret_cast<const char*>(pixels_.data()) + static_cast<std::size_t>(y) * static_cast<std::size_t>(width_),
        static_cast<std::size_t>(width_));
  }
  uLongf bytes = ::compressBound(rows.size());
  std::string packed(bytes, '\0');
  if (::compress2(reinterpret_cast<Bytef*>(packed.data()), &bytes, reinterpret_cast<const Bytef*>(rows.data()),
                  rows.size(), Z_DEFAULT_COMPRESSION) != Z_OK) {
    return Error{ErrorCode::io, "cannot compress the picture"};
  }
  packed.resize(bytes);
  std::string header, palette;
  append_u32(header, static_cast<std::uint32_t>(width_));
  append_u32(header, static_cast<std::uint32_t>(height_));
  header += std::string("\x08\x03\x00\x00\x00", 5);  // 8 bits, with a palette, not interlaced
  for (int colour = 0; colour < 256; ++colour) {
    for (const std::uint8_t part : rgb_of(static_cast<std::uint8_t>(colour))) palette += static_cast<char>(part);
  }
  std::string file = "\x89PNG\r\n\x1a\n";
  append_chunk(file, "IHDR", header);
  append_chunk(file, "PLTE", palette);
  append_chunk(file, "IDAT", packed);
  append_chunk(file, "IEND", "");
  return file;
}

}  // namespace sonde
