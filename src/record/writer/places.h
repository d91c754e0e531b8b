// Places: the directories of a rank in which a run creates files, and unused file names in them.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "dump/journal/record.h"
#include "dump/layout/layout.h"
#include "ground/files/files.h"
#include "sonde/result.h"

namespace sonde {

struct OpenDirectory {
  StepId step;       // the last step with files here
  std::string path;  // relative to the rank directory, with a `/` at the end
  std::filesystem::path full_path;
  Fd directory;
  std::optional<AppendFile> mapping;  // mapping.csv: the full names of files with a too long name
};

// For one thread.
class Places {
 public:
  // The name of the file at the attempt with this number, from 0; the same name if there is no other.
  using Name = std::function<std::string(int attempt)>;
  // Makes the file. Returns 0 or an errno.
  using Put = std::function<int(int directory, const char* name)>;

  // `rank` is the open rank directory and outlives this object.
  Places(const Layout& layout, int rank) : layout_(layout), rank_(rank) {}

  // The directory for files of `record`; makes it if it is missing. Valid until the next call.
  Result<OpenDirectory*> of(const NamedRecord& record);
  // Lets `put` make the file under the first unused name; never writes to an existing name. Returns 0 and the file's
  // path relative to the rank directory, or an errno.
  int place(OpenDirectory& directory, const Name& name, const Put& put, std::string& path);
  // The error of place(): `{operation} '{directory}'` and its errno, or the obstacle to mapping.csv.
  Error error(std::string_view operation, const OpenDirectory& directory, int error_number) const;
  // No more files of `step` will come.
  void close_step(StepId step);

 private:
  int place_long(OpenDirectory& directory, const std::string& name, const Put& put, std::string& path);

  Layout layout_;
  int rank_;
  std::vector<std::unique_ptr<OpenDirectory>> open_;  // few at a time
  std::optional<Error> mapping_error_;
  std::minstd_rand random_{std::random_device{}()};
};

}  // namespace sonde
