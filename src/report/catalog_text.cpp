#include "report/catalog_text.h"

#include <fmt/format.h>

namespace sonde {

std::string rank_text(const CatalogRank& rank) {
  return fmt::format("{}{}{}", rank.rank, rank.dump.empty() ? "" : " of ", rank.dump);
}

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
