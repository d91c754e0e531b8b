#include "read/measure/slot_values.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cfloat>
#include <cmath>

#include "read/measure/measure.h"
#include "read/measure/values.h"

namespace sonde {
namespace {

// The next place in C order; false after the last.
bool advance(Position& position, const std::vector<std::int64_t>& shape) {
  for (std::size_t i = shape.size(); i-- > 0;) {
    if (++position[i] < shape[i]) return true;
    position[i] = 0;
  }
  return false;
}

}  // namespace

std::string position_text(const Position& position) {
  return position.empty() ? "" : fmt::format("[{}]", fmt::join(position, ","));
}

std::optional<SlotValues> SlotValues::open(const CatalogRank& rank, const CatalogTensor& tensor) {
  SlotValues operand;
  operand.tensor_ = &tensor;
  if (tensor.constant) {
    operand.number_ = tensor.constant;
    return operand;
  }
  if (tensor.file.empty()) return std::nullopt;
  Result<TensorFile> file = open_file(rank, tensor);
  if (!file) return std::nullopt;
  operand.shape_ = file->shape();
  operand.file_ = std::make_shared<const TensorFile>(std::move(*file));
  return operand;
}

DType SlotValues::dtype() const { return file_ != nullptr ? file_->view().dtype : tensor_->dtype; }

std::int64_t SlotValues::elements() const { return number_ ? 1 : file_->view().elements(); }

std::optional<std::int64_t> SlotValues::index_of(const Position& position) const {
  // Its file has more dimensions than the op can have read.
  if (position.size() < shape_.size()) return std::nullopt;
  const TensorView view = file_->view();
  std::int64_t index = 0;
  for (std::size_t i = 0; i < shape_.size(); ++i) {
    if (position[i] < 0 || position[i] >= shape_[i]) return std::nullopt;
    index += position[i] * view.strides[i];
  }
  return index;
}

double SlotValues::at(const Position& position) const {
  if (number_) return *number_;
  const std::optional<std::int64_t> index = index_of(position);
  return index ? element_value(file_->view(), *index) : std::nan("");
}

double SlotValues::magnitude_at(const Position& position) const {
  if (number_) return std::fabs(*number_);
  const std::optional<std::int64_t> index = index_of(broadcast(position));
  return index ? element_magnitude(file_->view(), *index) : std::nan("");
}

Position SlotValues::broadcast(const Position& position) const {
  Position own(shape_.size(), 0);
  const std::size_t skip = position.size() > own.size() ? position.size() - own.size() : 0;
  for (std::size_t i = 0; i < own.size(); ++i) {
    const std::size_t from = i + skip;
    own[i] = shape_[i] == 1 || from >= position.size() ? 0 : std::min(position[from], shape_[i] - 1);
  }
  return own;
}

double SlotValues::broadcast_at(const Position& position) const { return at(broadcast(position)); }

std::vector<Position> SlotValues::find(Want want, std::size_t most) const {
  std::vector<Position> found;
  if (elements() == 0) return found;
  Position position(shape_.size(), 0);
  do {
    const double value = at(position);
    const bool hit = want == Want::nan   ? std::isnan(value)
                     : want == Want::inf ? std::isinf(value)
                                         : !std::isfinite(value);
    if (hit) found.push_back(position);
  } while (found.size() < most && advance(position, shape_));
  return found;
}

std::vector<double> SlotValues::values() const {
  return number_ ? std::vector<double>{*number_} : all_values(file_->view());
}

double largest_of(DType dtype) {
  switch (dtype) {
    case DType::float16:
      return 65504;
    case DType::bfloat16:
      return 0x1.FEp127;
    case DType::float32:
      return FLT_MAX;
    case DType::float64:
      return DBL_MAX;
    case DType::float8_e4m3fn:
      return 448;
    case DType::float8_e4m3fnuz:
      return 240;
    case DType::float8_e5m2:
    case DType::float8_e5m2fnuz:
      return 57344;
    case DType::float8_e8m0fnu:
      return 0x1p127;
    default:
      return 0;
  }
}

}  // namespace sonde
