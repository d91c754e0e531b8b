// TensorWriter: the tensor files of one rank. Equal tensors become one file under several names (hard links), or lie in
// the containers of all ops that have them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "dump/journal/record.h"
#include "dump/layout/layout.h"
#include "ground/files/files.h"
#include "record/writer/pack_file.h"
#include "record/writer/places.h"
#include "sonde/result.h"

namespace sonde {

struct TensorWriterOptions {
  bool pack = false;  // one pack for each directory of a step, instead of a file for each tensor
  bool raw_bfloat16 = false;
  // The number of distinct tensors to remember as link targets. About 300 bytes each.
  std::size_t remembered_contents = 1 << 18;
  std::size_t remembered_fingerprints = 1 << 16;
  // linkat(); tests replace it.
  int (*link)(int, const char*, int, const char*, int) = nullptr;
};

// For one thread. Records may come in any order: a tensor whose bytes have not arrived waits for them.
class TensorWriter {
 public:
  // The rank directory and the one for files being written exist; both belong to this writer.
  static Result<TensorWriter> open(const Layout& layout, const std::filesystem::path& aside,
                                   TensorWriterOptions options);
  TensorWriter(TensorWriter&&) noexcept;
  TensorWriter& operator=(TensorWriter&&) noexcept;
  ~TensorWriter();

  // Writes or links every selected tensor of `record` that gets a file, frees its bytes, and appends the results to
  // `stored` (also those of tensors that waited for these bytes). On failure the remaining bytes are kept. If a file
  // name is taken, the tensor's timestamp is advanced by a microsecond.
  Status store(Record& record, std::vector<StoredFile>& stored);
  // Writes what packs have gathered, and appends it to `stored`. Only then may the journal name it.
  Status flush(std::vector<StoredFile>& stored);
  // No more records of `step` are expected, and flush() was called. Tensors that have waited since before the last call
  // are given up.
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
