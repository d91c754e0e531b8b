#include "ask/convert/converted_names.h"

#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <mutex>

#include "ground/files/files.h"
#include "ground/files/safe_path.h"
#include "read/catalog/name_mapping.h"

namespace sonde {
namespace {

constexpr std::size_t kTooLong = 255;

bool is_number(std::string_view name) {
  return !name.empty() && std::ranges::all_of(name, [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::string name_uuid(std::string_view name) {
  constexpr std::string_view kDns("\x6b\xa7\xb8\x10\x9d\xad\x11\xd1\x80\xb4\x00\xc0\x4f\xd4\x30\xc8", 16);
  const std::string text = std::string(kDns).append(name);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest = {};
  EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_md5(), nullptr);
  digest[6] = static_cast<unsigned char>((digest[6] & 0x0F) | 0x30);
  digest[8] = static_cast<unsigned char>((digest[8] & 0x3F) | 0x80);
  std::string hex;
  for (std::size_t i = 0; i < 16; ++i) {
    hex += "0123456789abcdef"[digest[i] >> 4];
    hex += "0123456789abcdef"[digest[i] & 15];
  }
  return hex;
}

std::string fitting_name(const std::filesystem::path& directory, const std::string& name, std::string_view suffix) {
  if (name.size() < kTooLong) return name;
  const std::string fitting = name_uuid(name).append(suffix);
  const std::string line = fitting + "," + name + "\n";
  static std::mutex mutex;  // whole lines, also on file systems whose appends are not
  const std::scoped_lock lock(mutex);
  const Result<Fd> file = open_output(directory / "mapping.csv", OutputMode::append, kOpenMode);
  if (file) write_all(file->get(), line.data(), line.size());  // the tensor itself matters more than its long name
  return fitting;
}

std::string LongNames::of(const std::filesystem::path& file) {
  const std::string name = file.filename();
  if (!is_number(name)) return name;
  const auto [directory, is_new] = by_directory_.try_emplace(file.parent_path());
  if (is_new) directory->second = read_name_mapping(file.parent_path()).names;
  const auto found = directory->second.find(name);
  return found == directory->second.end() ? name : std::filesystem::path(found->second).filename().string();
}

}  // namespace sonde
