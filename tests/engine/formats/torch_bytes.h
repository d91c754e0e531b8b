// Builds torch.save files for tests: pickles opcode by opcode, and zips of uncompressed entries.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sonde {

// A zip; `method` 0: stored, as in PyTorch.
using ZipParts = std::vector<std::pair<std::string, std::string>>;
std::string zip_of(const ZipParts& parts, std::uint16_t method = 0);

std::string pickled_text(std::string_view text);  // BINUNICODE
std::string pickled_number(std::int32_t number);  // BININT
std::string pickled_global(std::string_view module, std::string_view name);
std::string pickled_tuple(const std::vector<std::int32_t>& numbers);
// _rebuild_tensor_v2 of storage `key`.
std::string pickled_tensor(std::string_view key, std::string_view storage, std::int32_t elements, std::int32_t offset,
                           const std::vector<std::int32_t>& shape, const std::vector<std::int32_t>& strides);
// PROTO 2, `object`, STOP.
std::string pickle_of(std::string_view object);
// torch.save's file of `object` with these storages.
std::string torch_file(std::string_view object, const std::vector<std::pair<std::string, std::string>>& storages);

}  // namespace sonde
