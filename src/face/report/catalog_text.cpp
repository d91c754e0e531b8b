#include "face/report/catalog_text.h"

#include <fmt/format.h>

namespace sonde {

std::string rank_text(std::uint32_t rank, std::string_view dump) {
  return fmt::format("{}{}{}", rank, dump.empty() ? "" : " of ", dump);
}

std::string rank_text(const CatalogRank& rank) { return rank_text(rank.rank, rank.dump); }

std::string dtype_text(const CatalogTensor& tensor) {
  return tensor.dtype == DType::undefined ? "?" : std::string(info(tensor.dtype).lower);
}

std::string shape_text(const CatalogTensor& tensor) {
  return tensor.has_shape ? shape_text(tensor.shape, '(', ')') : "?";
}

std::string source_text(const CatalogOp& op) {
  if (op.source_file.empty()) return "";
  return fmt::format("{}:{}", std::filesystem::path(op.source_file).filename().string(), op.line);
}

}  // namespace sonde
