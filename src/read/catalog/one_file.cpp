#include "read/catalog/one_file.h"

namespace sonde {

Catalog catalog_of_file(const std::filesystem::path& path) {
  Catalog catalog;
  catalog.path = path;
  CatalogRank& rank = catalog.ranks.emplace_back();
  rank.directory = path.parent_path();
  CatalogOp& op = rank.steps.emplace_back().ops.emplace_back();
  op.op_name = catalog.texts->keep(path.filename().string());
  op.op_type = "file";
  CatalogTensor& tensor = op.tensors.emplace_back();
  tensor.file = op.op_name;
  return catalog;
}

}  // namespace sonde
