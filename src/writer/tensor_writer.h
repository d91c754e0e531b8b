// TensorWriter: the tensor files of one rank. Equal tensors become one file under several names (hard links), or lie in
// the containers of all ops that have them.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "files/files.h"
#include "journal/record.h"
#include "layout/layout.h"
#include "sonde/result.h"
#include "writer/places.h"

namespace sonde {

// A slot of a record that now has a file.
struct StoredFile {
  std::uint64_t sequence = 0;
  bool is_input = false;
  std::uint32_t slot = 0;
  std::string path;  // relative to the rank directory
};

struct TensorWriterOptions {
  bool raw_bfloat16 = false;
  // The number of distinct tensors to remember as link targets. About 300 bytes each.
  std::size_t remembered_contents = 1 << 18;
  std::size_t remembered_fingerprints = 1 << 16;
  // linkat(); tests put their own here.
  int (*link)(int, const char*, int, const char*, int) = nullptr;
};

// One thread. Records may come in any order: a tensor whose bytes are still on their way waits for them.
class TensorWriter {
 public:
  // The rank directory and the one for files being written exist; both belong to this writer.
  static Result<TensorWriter> open(const Layout& layout, const std::filesystem::path& aside,
                                   TensorWriterOptions options);
  TensorWriter(TensorWriter&&) noexcept;
  TensorWriter& operator=(TensorWriter&&) noexcept;
  ~TensorWriter();

  // Writes or links every wanted tensor of `record` that has a file to get, frees its bytes, and appends what is done
  // to `stored` (also what had been waiting for these bytes). On failure the remaining bytes are kept. A tensor's
  // timestamp is moved on by a microsecond where its file name was taken.
  Status store(Record& record, std::vector<StoredFile>& stored);
  // No record of `step` is expected any more. Tensors that waited since before the last call are given up.
  void close_step(StepId step);
  Places& places();  // for other files of the same directories

  std::uint64_t bytes_written() const;  // tensor bytes in files of their own
  std::uint64_t files() const;          // names, links included
  std::uint64_t lost() const;           // tensors whose bytes never came

 private:
  struct State;
  explicit TensorWriter(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace sonde
