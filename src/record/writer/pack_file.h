// PackFile: the pack of one directory while a run writes it (formats/pack.h).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dump/journal/block.h"
#include "dump/journal/record.h"
#include "ground/files/files.h"
#include "ground/files/write_method.h"

namespace sonde {

// Page-aligned memory, for writes past the page cache.
class Pages {
 public:
  explicit Pages(std::size_t bytes);  // empty if the system has no memory
  Pages(Pages&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Pages& operator=(Pages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Pages();
  std::byte* data() const { return data_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Gathers tensors until flush(), which writes them as one section. For one thread.
class PackFile {
 public:
  using Fill = std::function<void(std::byte* out)>;

  // `path`: relative to the rank directory. The file is new and empty.
  PackFile(Fd file, std::string path);

  // Room for one more path and these bytes; without it, flush first.
  bool has_room(std::size_t path_bytes, std::size_t bytes) const;
  // False if another tensor of this pack has the path.
  bool take_name(const std::string& own) { return names_.insert(own).second; }
  // Each returns the prefix of the tensor's path, to which `own` is added; empty without memory. A large block is not
  // copied, if `header` fits into its headroom: it is written from where it is.
  std::string add(std::string_view own, std::string_view header, BlockPtr block);
  std::string add(std::string_view own, std::size_t bytes, const Fill& fill);
  // Another name for bytes that are in this pack, or in one that is flushed at the same time or before.
  void add_link(std::string_view path);

  // Paths that are on the disk after the next flush().
  void expect(StoredFile stored) { expected_.push_back({std::move(stored), at_}); }
  // Writes the section and appends what is on the disk to `stored`; after a failure, which returns an errno, the
  // tensors before the first byte that was not written.
  int flush(WriteMethod& method, std::vector<StoredFile>& stored);

  const std::string& path() const { return path_; }

 private:
  struct Expected {
    StoredFile stored;
    std::uint64_t end = 0;  // of its bytes in the file
  };

  std::byte* stage(std::size_t bytes);
  void end_piece();
  std::string listed(std::string_view own, std::uint64_t offset, std::size_t bytes);
  int write(WriteMethod& method, bool keeps_up, std::uint64_t& written);
  int ask_for_late_error();
  void begin_section();

  Fd file_;
  std::string path_;
  Pages stage_;  // the head, and the small tensors
  std::size_t staged_ = 0, piece_ = 0;
  std::uint64_t begin_ = 0, at_ = 0;  // of the section, and the next free byte in the file
  std::string paths_;
  std::vector<iovec> parts_;
  std::vector<BlockPtr> blocks_;
  std::vector<Pages> copies_;
  std::vector<Expected> expected_;
  std::unordered_set<std::string> names_;
};

}  // namespace sonde
