// Pool: all tensors of the steps of one side, with the operators that made and read them.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <tuple>
#include <vector>

#include "ask/compare/compare_side.h"
#include "ask/relations/tensor_print.h"
#include "dump/formats/tensor_file.h"
#include "ground/base/mutex.h"
#include "read/catalog/dump_part.h"
#include "read/measure/tensor_difference.h"
#include "sonde/dtype.h"

namespace sonde {

// Values that no dump has: they follow from others.
struct Computed {
  std::vector<double> values;
  std::vector<std::int64_t> shape, strides;
  TensorView view() const;
};

// A tensor in a file. One of complex numbers is shown as real ones with a last axis of both parts: another implementation
// may keep these apart.
struct RealFile {
  explicit RealFile(TensorFile file);
  TensorView view() const;

  TensorFile file;
  std::vector<std::int64_t> shape, strides;
};

// The values of a tensor of a pool.
class PoolValues {
 public:
  PoolValues() = default;
  explicit PoolValues(std::shared_ptr<const RealFile> file) : file_(std::move(file)) {}
  explicit PoolValues(std::shared_ptr<const Computed> computed) : computed_(std::move(computed)) {}
  explicit operator bool() const { return file_ != nullptr || computed_ != nullptr; }
  TensorView view() const { return computed_ != nullptr ? computed_->view() : file_->view(); }

 private:
  std::shared_ptr<const RealFile> file_;
  std::shared_ptr<const Computed> computed_;
};

struct PoolTensor {
  TensorOf of;
  std::uint32_t step = 0;
  std::uint32_t op = kNoOp;              // of the pool; kNoOp: it comes from outside
  std::vector<std::int64_t> shape = {};  // without its 1s; of complex numbers with an axis of both parts
  TensorPrint print = {};
  std::shared_ptr<const Computed> computed = {};  // an intermediate value of `op`, which is in no dump
  std::vector<std::uint32_t> readers = {};        // operators of the pool
  DType dtype_of_file = DType::undefined;         // as far as it was read
  bool holds_weights = false;                     // it is a weight, or weights that were moved, joined or cast

  bool is_weight() const { return op == kNoOp && of.tensor->parameter.is_parameter(); }
  // Else whole numbers, or flags.
  // A file of a free name has it in its own head.
  DType dtype() const { return of.tensor->dtype != DType::undefined ? of.tensor->dtype : dtype_of_file; }
  bool has_fractions() const { return is_floating(dtype()) || is_complex(dtype()); }
  std::vector<std::int64_t> whole_shape() const;  // with its 1s, as the program has it
};

struct PoolOp {
  std::uint32_t step = 0;
  std::uint32_t index = 0;                     // in the ops of the step's side
  std::vector<std::uint32_t> inputs, outputs;  // tensors of the pool
  std::vector<std::uint32_t> slots;            // of the inputs
};

class Pool {
 public:
  // The steps of `part`. The catalog must outlive the pool.
  Pool(const Catalog& catalog, const DumpPart& part, OpFamilies& families);

  // Reads every tensor once, with the numbers of its parts, for a search. Files that cannot be read are in `unreadable`.
  void read(const Threads& threads);
  // Shapes and statistics alone: the numbers of values stay 0.
  void read_shapes(const Threads& threads);
  // The numbers of those that are `wanted`, by tensor, without parts.
  void read_wholes(const Threads& threads, const std::vector<char>& wanted);

  const CompareOp& op(std::uint32_t number) const { return steps[ops[number].step]->ops[ops[number].index]; }
  const CatalogOp& catalog_op(std::uint32_t number) const { return *op(number).op; }
  bool is_type(std::uint32_t op, std::string_view bare) const;  // of bare_type()
  // Of the network or its loss: a program without modules runs them outside of any.
  bool is_of_forward(std::uint32_t op) const;
  // Empty if it has no values that can be read. Several threads may ask.
  PoolValues values_of(std::uint32_t tensor) const;
  // A value inside of `op`, in the type of its output.
  void add_computed(std::uint32_t op, std::vector<std::int64_t> shape, std::vector<double> values);
  // Those that were added when there were so many tensors.
  void forget_computed(std::size_t tensors_before) { tensors.resize(tensors_before); }
  // Of what operators make; false: statistics at most.
  bool has_values() const;
  // The operator's name, or the parameter's.
  std::string_view name_of(std::uint32_t tensor) const;

  std::vector<std::shared_ptr<CompareSide>> steps;
  std::vector<PoolOp> ops;
  std::vector<PoolTensor> tensors;
  std::vector<std::string> unreadable;

 private:
  enum class Depth : std::uint8_t { shapes, wholes, parts };
  void read(const Threads& threads, Depth depth, const std::vector<char>* wanted);
  void add_step(const CatalogRank& rank, const CatalogStep& step, OpFamilies& families);
  std::uint32_t add(PoolTensor tensor);
  std::uint32_t read_of(std::uint32_t made, const TensorOf& read);
  void add_reader(std::uint32_t tensor, std::uint32_t op);

  struct OpenFiles {
    Mutex mutex_;
    std::deque<std::pair<std::uint32_t, std::shared_ptr<const RealFile>>> last GUARDED_BY_MUTEX;
  };
  std::unique_ptr<OpenFiles> open_ = std::make_unique<OpenFiles>();
};

// Where the program runs an operator of this type; in each step and each layer the same.
using LinePlace = std::tuple<std::string_view, std::int64_t, std::string_view>;
LinePlace line_of(const CatalogOp& op);

}  // namespace sonde
