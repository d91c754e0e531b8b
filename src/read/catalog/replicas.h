// The files of tensors that another rank has written for this one, too ("replicas" in the configuration): found by their
// content in what that rank says of them, where its directory is beside this one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "read/catalog/catalog.h"

namespace sonde {

// The rank that has the file, by CatalogTensor::skipped; empty: the file is its own.
std::optional<std::uint32_t> writer_of(std::string_view skipped);

// The directory of another rank beside `rank_directory`; empty: that one's name has no number.
std::filesystem::path directory_beside(const std::filesystem::path& rank_directory, std::uint32_t rank);

// Its file is that of another rank, by an absolute path.
bool is_elsewhere(const CatalogTensor& tensor);

// The tensors that a rank has written for others.
class ReplicaTable {
 public:
  // Null: the rank has no such file. Read once, and again when it has changed.
  static std::shared_ptr<const ReplicaTable> of(const std::filesystem::path& rank_directory);

  // An absolute path; empty: nothing with this content is there.
  std::string file_of(const std::string& content) const;
  // The rank has written it, whether its file is still there or not.
  bool has_written(const std::string& content) const { return files_.contains(content); }
  // The rank has written other values under this name.
  bool has_other(StepId step, std::string_view op_name, std::string_view slot) const;

 private:
  std::filesystem::path directory_;
  std::unordered_map<std::string, std::vector<std::string>> files_;  // by content
  std::unordered_set<std::string> places_;
};

// Sets CatalogTensor::file of copies whose values are at hand.
void find_replicas(const std::filesystem::path& rank_directory, CatalogOp& op, TextPool& texts);
void find_replicas(const std::filesystem::path& rank_directory, std::span<CatalogOp> ops, TextPool& texts);
// `content`: content_key() of it. Empty: it is not a copy, or not at hand.
std::string file_of_replica(const std::filesystem::path& rank_directory, std::string_view skipped,
                            const std::string& content);

// A remark for each rank whose values are with one that is not there.
void note_missing_replicas(Catalog& catalog);

}  // namespace sonde
