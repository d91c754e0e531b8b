#include "torch_bytes.h"

namespace sonde {
namespace {

template <typename Number>
std::string little_endian(Number number) {
  std::string out;
  for (std::size_t i = 0; i < sizeof(number); ++i) out.push_back(static_cast<char>(number >> (8 * i)));
  return out;
}

std::string u16(std::size_t number) { return little_endian(static_cast<std::uint16_t>(number)); }
std::string u32(std::size_t number) { return little_endian(static_cast<std::uint32_t>(number)); }

}  // namespace

std::string zip_of(const ZipParts& parts, std::uint16_t method) {
  std::string out, directory;
  for (const auto& [name, bytes] : parts) {
    // Version, flags, method, time, date, checksum, two sizes, lengths of name and extra field.
    const std::string head =
        u16(20) + u16(0) + u16(method) + u32(0) + u32(0) + u32(bytes.size()) + u32(bytes.size()) + u16(name.size());
    directory += "PK\1\2" + u16(20) + head + u16(0) + u16(0) + u16(0) + u16(0) + u32(0) + u32(out.size()) + name;
    const std::size_t padding = 64 - (out.size() + 30 + name.size()) % 64;  // PyTorch's alignment of elements
    out += "PK\3\4" + head + u16(padding) + name + std::string(padding, 'F') + bytes;
  }
  const std::size_t at = out.size();
  return out + directory + "PK\5\6" + u32(0) + u16(parts.size()) + u16(parts.size()) + u32(directory.size()) + u32(at) +
         u16(0);
}

std::string pickled_text(std::string_view text) { return "X" + u32(text.size()) + std::string(text); }
std::string pickled_number(std::int32_t number) { return "J" + u32(static_cast<std::uint32_t>(number)); }
std::string pickled_global(std::string_view module, std::string_view name) {
  return "c" + std::string(module) + "\n" + std::string(name) + "\n";
}
std::string pickled_tuple(const std::vector<std::int32_t>& numbers) {
  std::string out = "(";
  for (const std::int32_t number : numbers) out += pickled_number(number);
  return out + "t";
}

std::string pickled_tensor(std::string_view key, std::string_view storage, std::int32_t elements, std::int32_t offset,
                           const std::vector<std::int32_t>& shape, const std::vector<std::int32_t>& strides) {
  return pickled_global("torch._utils", "_rebuild_tensor_v2") + "((" + pickled_text("storage") +
         pickled_global("torch", storage) + pickled_text(key) + pickled_text("cpu") + pickled_number(elements) + "tQ" +
         pickled_number(offset) + pickled_tuple(shape) + pickled_tuple(strides) + "\x89" +
         pickled_global("collections", "OrderedDict") + ")RtR";
}

std::string pickle_of(std::string_view object) { return "\x80\x02" + std::string(object) + "."; }

std::string torch_file(std::string_view object, const std::vector<std::pair<std::string, std::string>>& storages) {
  ZipParts parts = {{"archive/data.pkl", pickle_of(object)}, {"archive/byteorder", "little"}};
  for (const auto& [key, bytes] : storages) parts.emplace_back("archive/data/" + key, bytes);
  parts.emplace_back("archive/version", "3\n");
  return zip_of(parts);
}

}  // namespace sonde
