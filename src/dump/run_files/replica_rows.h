// The file `.dump_metadata/sonde/replicas` of a rank: the tensors that it has written for others, too ("replicas" in the
// configuration). A line of JSON each, so that another rank's reader finds a file by its content (docs/format.md).
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dump/journal/record.h"

namespace sonde {

struct ReplicaRow {
  StepId step;
  std::string op_name;
  std::string slot;     // "input.0"
  std::string content;  // content_key()
  std::string file;     // relative to the rank's directory
};

// MD5, type and shape: tensors of one key have one file.
std::string content_key(std::string_view md5, DType dtype, std::span<const std::int64_t> shape);
std::string content_key(std::string_view md5, std::string_view dtype, std::string_view shape);  // "float32", "(2,3)"
std::string slot_key(bool is_input, std::uint32_t slot);

std::filesystem::path replicas_in(const std::filesystem::path& metadata);           // .dump_metadata
std::filesystem::path replicas_in_own(const std::filesystem::path& own_directory);  // .dump_metadata/sonde

// With a newline.
std::string line_of(const ReplicaRow& row);
// Empty for any other text, and for a file that is not below the rank's directory.
std::optional<ReplicaRow> replica_row(std::string_view line);

// The rows of a record's tensors that have an MD5 and a file.
std::string replica_lines(const Record& record, const std::vector<StoredFile>& stored);

}  // namespace sonde
