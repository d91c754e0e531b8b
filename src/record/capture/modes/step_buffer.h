// StepBuffer: the records of a step, in modes that keep a step only when something is found in it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "dump/journal/record.h"
#include "record/capture/per_graph.h"
#include "record/writer/recorder.h"

namespace sonde {

// Not synchronised: its owner calls it under the session's lock.
class StepBuffer {
 public:
  // `buffers`: false hands every record on at once.
  explicit StepBuffer(bool buffers) : buffers_(buffers) {}
  void open(Recorder& recorder) { recorder_ = &recorder; }

  // `keeps`: everything in this step is recorded anyway.
  void begin_step(std::uint32_t graph, bool keeps) { open_[graph].kept = keeps; }
  void submit(Record&& record);
  void define(std::uint32_t graph, Attributes&& attributes);
  // Something was found in the open step: its records are for the dump.
  void keep(std::uint32_t graph);
  void end_step(std::uint32_t graph);

  // The same numbers will be given to other attributes, so the definitions that wait here are dropped.
  void forget_attributes() { attributes_.clear(); }
  // Reports the sequences of dropped records to the recorder. Must be called before the recorder finishes.
  void skip_dropped();
  void clear() { open_.clear(); }

 private:
  struct Step {
    std::vector<Record> records;
    bool kept = false;
  };
  void drop(std::uint64_t sequence);

  const bool buffers_;
  Recorder* recorder_ = nullptr;
  PerGraph<Step> open_;
  std::vector<Attributes> attributes_;                            // nothing that was kept has them yet
  std::vector<std::pair<std::uint64_t, std::uint64_t>> dropped_;  // sequences [from, to)
};

}  // namespace sonde
