// Packs: the open packs of a rank, one for each directory of a step.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "dump/layout/layout.h"
#include "ground/files/write_method.h"
#include "record/writer/pack_file.h"
#include "record/writer/places.h"
#include "sonde/result.h"

namespace sonde {

// For one thread.
class Packs {
 public:
  explicit Packs(Layout layout) : layout_(std::move(layout)) {}

  // The pack for tensors in the directory `place`, with room for `bytes`. It may flush the packs into `stored` for that.
  // Valid until the next call.
  Result<PackFile*> open(const OpenDirectory& place, StepId step, std::size_t bytes, const Places& places,
                         WriteMethod& method, std::vector<StoredFile>& stored);
  // The pack that open() returned for `place`.
  PackFile& in(const OpenDirectory& place);
  // Writes what they have gathered. After an error the others are still flushed: they give their memory back.
  Status flush(WriteMethod& method, std::vector<StoredFile>& stored);
  // No more tensors of `step` will come, and flush() was called.
  void close_step(StepId step);

 private:
  struct OpenPack {
    std::string directory;  // of the step
    StepId step;            // the last one with tensors here
    PackFile file;
  };

  Layout layout_;
  std::vector<OpenPack> open_;
};

}  // namespace sonde
