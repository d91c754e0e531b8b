// TensorFile: one tensor in a file of any kind that a dump may have: .npy, torch.save's .pt, a container of CANN, a tensor of
// ATB, a raw .bin of 1.2. The first bytes show the kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dump/formats/container.h"
#include "dump/formats/npy_reader.h"
#include "ground/files/mapped_file.h"
#include "sonde/dtype.h"
#include "sonde/result.h"
#include "sonde/tensor.h"

namespace sonde {

// The known facts about the requested tensor. A container holds several, and so may a .pt file, where `slot` counts
// them in the order of the object. A raw file does not describe itself.
struct TensorSpec {
  bool is_input = false;
  std::uint32_t slot = 0;
  DType dtype = DType::undefined;
  std::optional<std::vector<std::int64_t>> shape = std::nullopt;
  std::string_view name = {};  // of the file, if its own name is a number that replaces a long one
};

// Decides by the name: `.npy` and `.bin` files hold one tensor, other files may hold several.
bool is_container_name(std::string_view name);
bool is_torch_name(std::string_view name);  // .pt, .pth

// Owns the mapping of the file; views are valid as long as it lives.
class TensorFile {
 public:
  // Fails with `corrupt`, with the place and the found and expected values; `unsupported` for types that are not
  // numeric; `not_found` if a container has no such slot.
  static Result<TensorFile> open(const std::filesystem::path& path, const TensorSpec& spec = {});

  DType dtype() const { return dtype_; }
  const std::vector<std::int64_t>& shape() const { return shape_; }
  TensorView view() const;

 private:
  TensorFile() = default;
  Status read(const std::filesystem::path& path, const TensorSpec& spec);
  Status read_npy();
  Status read_torch(const TensorSpec& spec);
  Status read_atb(const std::filesystem::path& path);
  Status read_raw(const std::string& own_name, const TensorSpec& spec);
  Status read_container(const TensorSpec& spec);
  Status take(const ContainerTensor& tensor, const TensorSpec& spec);
  Status lay(std::uint64_t offset);
  Status decode(const ContainerTensor& tensor, std::uint64_t count);
  Status settle(const TensorView& saved, bool big_endian);

  DType dtype_ = DType::undefined;
  std::vector<std::int64_t> shape_, strides_;
  std::optional<NpyFile> npy_;
  MappedFile mapped_;
  const std::byte* data_ = nullptr;
  std::vector<std::byte> copy_;  // elements that cannot be used in place
};

// Reads a container's header without touching its tensors. Errors name the file.
Result<Container> read_container(const std::filesystem::path& path);

}  // namespace sonde
