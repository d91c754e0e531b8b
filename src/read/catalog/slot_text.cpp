#include "read/catalog/slot_text.h"

#include <fmt/format.h>

#include <filesystem>

namespace sonde {

Side side_of(const CatalogTensor& tensor) { return tensor.is_input ? Side::input : Side::output; }

std::string slot_text(const CatalogTensor& tensor) {
  return fmt::format("{}.{}", tensor.is_input ? "input" : "output", tensor.slot);
}

std::string name_of(const CatalogOp& op, const CatalogTensor& tensor) {
  return fmt::format("{}:{}", op.op_name, slot_text(tensor));
}

std::string line_text(const CatalogOp& op) {
  if (op.source_file.empty()) return "";
  return fmt::format(" ({}:{})", std::filesystem::path(op.source_file).filename().string(), op.line);
}

}  // namespace sonde
