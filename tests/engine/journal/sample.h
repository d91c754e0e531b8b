// A journal with one of everything, like that of a small training run.
#pragma once

#include <string>
#include <vector>

#include "dump/journal/journal.h"

namespace sonde {

struct SampleRun {
  std::string header = R"({"engine":"0.1.0","rank":0})";
  std::string end = R"({"steps":1,"ops":2})";
  std::vector<Site> sites;
  std::vector<OpName> op_names;
  std::vector<Attributes> attributes;
  std::vector<Record> records;
  std::string note;
  struct File {
    std::uint64_t sequence;
    bool is_input;
    std::uint32_t slot;
    std::string file;
  };
  std::vector<File> files;
};

SampleRun sample_run();
// The bytes of that run; with `finished` false the last entry is missing, as after a kill.
std::string write(const SampleRun& run, bool finished = true);
Dims dims(std::vector<std::int64_t> sizes);

}  // namespace sonde
