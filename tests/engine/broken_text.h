// Texts with random damage, which is always the same, for the entries of fuzz/ under ctest.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace sonde {

using FuzzEntry = int(const std::uint8_t* data, std::size_t size);

inline constexpr int kRounds = 2000;

inline void run(FuzzEntry& entry, const std::string& text) {
  EXPECT_EQ(entry(reinterpret_cast<const std::uint8_t*>(text.data()), text.size()), 0);
}

// Flips, drops, repeats or inserts a few bytes.
inline std::string broken(std::string text, std::mt19937& random) {
  static const std::string kPlants[] = {std::string(8, '\xFF'),
                                        std::string(4, '\0'),
                                        "PK\1\2",
                                        "R",
                                        "[",
                                        "{",
                                        "\"",
                                        ",",
                                        "9223372036854775808",
                                        "NaN",
                                        "-1",
                                        "..",
                                        "\\u12"};
  for (unsigned edits = 1 + random() % 4; edits > 0; --edits) {
    const std::size_t at = random() % (text.size() + 1);
    const std::size_t length = std::min<std::size_t>(random() % 20, text.size() - at);
    switch (random() % 4) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(at, length));
        break;
      default:
        text.insert(at, kPlants[random() % std::size(kPlants)]);
    }
  }
  return text;
}

inline void survive(FuzzEntry& entry, const std::vector<std::string>& seeds) {
  std::mt19937 random(20261122);
  run(entry, "");
  for (const std::string& seed : seeds) {
    for (std::size_t length = 0; length <= seed.size(); ++length) run(entry, seed.substr(0, length));
    for (int round = 0; round < kRounds; ++round) run(entry, broken(seed, random));
  }
}

}  // namespace sonde
