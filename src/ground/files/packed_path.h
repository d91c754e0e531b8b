// The path of a tensor inside a pack (formats/pack.h). It says where the bytes are and what they would be called as a
// file of their own:
//
//   {path of the pack}/{offset}-{bytes}/{path of the tensor's own file}
//   rank_0/Net/0/3/tensors.pack/16384-1049216/Net/0/3/Conv2D.….output.0.DefaultFormat.Float32.npy
//
// So such a path stands wherever a dump has the path of a tensor's file, and its last part is an ordinary name.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace sonde {

inline constexpr std::string_view kPackExtension = ".pack";
inline constexpr const char* kPackName = "tensors.pack";  // "tensors.1.pack", … if that is taken

struct PackedPath {
  std::string_view pack;  // the file
  std::uint64_t offset = 0, bytes = 0;
  std::string_view own;  // relative to the rank's directory
};

bool is_pack_name(std::string_view name);
// "{pack}/{offset}-{bytes}/", to which the tensor's own path is added.
std::string packed_prefix(std::string_view pack, std::uint64_t offset, std::uint64_t bytes);
// Nullopt for any other path. Does not touch the disk; a directory may have such a name too.
std::optional<PackedPath> packed_path(std::string_view path);

// As ::stat(), with an errno, also for a tensor in a pack: st_size is that of the tensor, st_ino is a number of its own
// for each place in a pack, and st_nlink is 2, because equal tensors share a place. ENOENT if the pack ends before it.
int stat_tensor(const std::filesystem::path& path, struct stat& status);
// The file on the disk: the pack, or `path` itself.
std::filesystem::path file_of_tensor(const std::filesystem::path& path);

}  // namespace sonde
