// Canvas: a picture of 256 colours, drawn pixel by pixel, and written as PNG.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sonde/result.h"

namespace sonde {

// Indices into the palette. From kFirstShade on, kShades shades from dark (low) to light (high) show values.
enum Colour : std::uint8_t {
  kWhite = 0,
  kBlack = 1,
  kGrey = 2,
  kPale = 3,
  kNanColour = 4,
  kPositiveInfColour = 5,
  kNegativeInfColour = 6,
  kFirstLine = 8,  // eight distinct colours, for lines and bars
  kFirstShade = 16,
};
inline constexpr int kLineColours = 8;
inline constexpr int kShades = 240;
// The colour of a value between 0 and 1.
std::uint8_t shade_of(double part);
std::array<std::uint8_t, 3> rgb_of(std::uint8_t colour);

class Canvas {
 public:
  Canvas(int width, int height);

  int width() const { return width_; }
  int height() const { return height_; }
  // Points outside are ignored.
  void set(int x, int y, std::uint8_t colour);
  void fill(int x, int y, int width, int height, std::uint8_t colour);
  void frame(int x, int y, int width, int height, std::uint8_t colour);          // around that many pixels
  void line(int x0, int y0, int x1, int y1, std::uint8_t colour);                // two pixels wide
  void text(int x, int y, std::string_view text, std::uint8_t colour = kBlack);  // its top left corner
  std::uint8_t at(int x, int y) const { return pixels_[static_cast<std::size_t>(y) * width_ + x]; }

  // The bytes of the file; fails only without memory.
  Result<std::string> png() const;

 private:
  int width_, height_;
  std::vector<std::uint8_t> pixels_;
};

// Pixels of a text.
inline constexpr int kTextHeight = 16, kCharacterWidth = 12;
int text_width(std::string_view text);

}  // namespace sonde
