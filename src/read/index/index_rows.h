// Reads rows of an index: ops and their tensors, and what they refer to by number.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "contract/tables.h"
#include "read/catalog/catalog.h"
#include "read/index/sqlite.h"
#include "sonde/result.h"

namespace sonde {

// An output with statistics, as far as they show how large its values are.
struct OutputSize {
  std::string_view op_name;
  std::size_t place = 0, position = 0;  // of the op in its step, of the tensor in its op
  std::uint32_t slot = 0;
  std::optional<double> max, min, l2norm;  // empty: unknown, or NaN
};

class IndexRows {
 public:
  // Ops have their texts in `texts`, which must outlive this object. `database` too.
  IndexRows(Database& database, TextPool& texts) : database_(database), all_texts_(texts) {}

  Status prepare();
  // Adds the ops with the ids from `first` up to but not including `end`, with their tensors. After the last call:
  // check().
  void read_ops(std::int64_t first, std::int64_t end, std::vector<CatalogOp>& ops);
  // The floating-point outputs of these ops that have statistics, in their order; much faster than read_ops.
  void each_output(std::int64_t first, std::int64_t end, const std::function<void(const OutputSize&)>& take);
  Status check() const;  // fails if any row could not be read

  // Owns the data that the ops refer to, besides `texts`.
  std::shared_ptr<const void> owner() const { return kept_; }

 private:
  // Data that ops point to (traces and attributes), and file names, each stored once.
  struct Kept {
    std::deque<std::vector<SourceLine>> traces;
    std::deque<std::vector<Attribute>> attributes;
    std::deque<std::string> files;
  };

  CatalogOp op_of(const tables::Ops& row);
  CatalogTensor tensor_of(const tables::Tensors& row);
  std::string_view text_of(const std::optional<std::uint64_t>& id);  // empty: no text
  std::string_view kept_text(const std::optional<std::string_view>& text);
  std::string_view text_of(std::int64_t id);
  const std::pair<std::string_view, std::string_view>& name_of(std::int64_t id);
  DType dtype_of(std::string_view name);
  const std::vector<SourceLine>* trace_of(std::int64_t id);
  const std::vector<Attribute>* attributes_of(std::int64_t id);

  Database& database_;
  TextPool& all_texts_;
  std::shared_ptr<Kept> kept_ = std::make_shared<Kept>();
  Statement text_, name_, trace_, attribute_, ops_, tensors_, names_of_ops_, outputs_;
  std::string last_dtype_name_;
  DType last_dtype_ = DType::undefined;
  std::unordered_map<std::int64_t, std::string_view> texts_;
  std::unordered_map<std::int64_t, std::pair<std::string_view, std::string_view>> names_;
  std::unordered_map<std::int64_t, const std::vector<SourceLine>*> traces_;
  std::unordered_map<std::int64_t, const std::vector<Attribute>*> attribute_sets_;
};

}  // namespace sonde
