#include "dump/formats/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace sonde {
namespace {

constexpr std::uint32_t kPolynomial = 0xEDB88320;
using Table = std::array<std::uint32_t, 256>;

// Table k: the effect of a byte that is followed by k other bytes.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables = {};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ ((value & 1U) != 0 ? kPolynomial : 0);
    tables[0][byte] = value;
  }
  for (std::size_t k = 1; k < tables.size(); ++k) {
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t value = tables[k - 1][byte];
      tables[k][byte] = (value >> 8) ^ tables[0][value & 0xFF];
    }
  }
  return tables;
}
constexpr std::array<Table, 8> kTables = make_tables();

}  // namespace

std::uint32_t crc32(std::uint32_t before, const std::byte* data, std::size_t bytes) {
  std::uint32_t crc = ~before;
  for (; bytes >= 8; bytes -= 8, data += 8) {  // eight bytes at a time: their tables are independent of each other
    std::uint32_t low = 0, high = 0;
    std::memcpy(&low, data, 4);
    std::memcpy(&high, data + 4, 4);
    low ^= crc;
    crc = kTables[7][low & 0xFF] ^ kTables[6][low >> 8 & 0xFF] ^ kTables[5][low >> 16 & 0xFF] ^ kTables[4][low >> 24] ^
          kTables[3][high & 0xFF] ^ kTables[2][high >> 8 & 0xFF] ^ kTables[1][high >> 16 & 0xFF] ^
          kTables[0][high >> 24];
  }
  for (; bytes > 0; --bytes, ++data)
    crc = (crc >> 8) ^ kTables[0][(crc ^ std::to_integer<std::uint32_t>(*data)) & 0xFF];
  return ~crc;
}

}  // namespace sonde
