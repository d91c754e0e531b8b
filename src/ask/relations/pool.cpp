#include "ask/relations/pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "ground/base/shape.h"
#include "read/catalog/several_runs.h"
#include "read/measure/measure.h"
#include "read/operators/op_nature.h"
#include "sonde/dtype.h"

namespace sonde {

Pool::Pool(const Catalog& catalog, const DumpPart& part, OpFamilies& families) {
  for (const CatalogRank& rank : catalog.ranks) {
    if (!part.takes(rank)) continue;
    const bool only_last = has_steps_twice(rank);
    for (const CatalogStep& step : rank.steps) {
      if (only_last && step.run + 1 != rank.runs.size()) continue;
      if (part.takes(step) && !step.ops.empty()) add_step(rank, step, families);
    }
  }
}

std::uint32_t Pool::add(PoolTensor tensor) {
  tensor.shape = squeezed(tensor.of.tensor->shape.values());
  tensor.holds_weights = tensor.holds_weights || tensor.is_weight();
  tensors.push_back(std::move(tensor));
  return static_cast<std::uint32_t>(tensors.size() - 1);
}

// A copy into a part of a buffer gives that part, and its reader reads all of the buffer.
std::uint32_t Pool::read_of(std::uint32_t made, const TensorOf& read) {
  const PoolTensor& part = tensors[made];
  const bool has_more = read.tensor->has_shape && part.of.tensor->has_shape && read.tensor->recorded() &&
                        element_count(read.tensor->shape) > element_count(part.of.tensor->shape);
  if (!has_more) return made;
  std::vector<std::uint32_t>& outputs = ops[part.op].outputs;
  const auto is_it = [&](std::uint32_t output) {
    return element_count(tensors[output].of.tensor->shape) == element_count(read.tensor->shape);
  };
  if (const auto known = std::ranges::find_if(outputs, is_it); known != outputs.end()) return *known;
  const std::uint32_t all = add({.of = read, .step = part.step, .op = part.op});
  outputs.push_back(all);
  return all;
}

void Pool::add_reader(std::uint32_t tensor, std::uint32_t op) {
  std::vector<std::uint32_t>& readers = tensors[tensor].readers;
  if (readers.empty() || readers.back() != op) readers.push_back(op);
}

void Pool::add_step(const CatalogRank& rank, const CatalogStep& step, OpFamilies& families) {
  const auto number = static_cast<std::uint32_t>(steps.size());
  steps.push_back(std::make_shared<CompareSide>(side_of(rank, step, families)));
  const CompareSide& side = *steps.back();
  const auto first = static_cast<std::uint32_t>(ops.size());
  std::vector<std::map<std::uint32_t, std::uint32_t>> made(side.ops.size());  // by slot
  std::map<std::tuple<std::string_view, std::uint64_t, std::uint64_t>, std::uint32_t> outside;
  for (std::uint32_t i = 0; i < side.ops.size(); ++i) {
    const CompareOp& op = side.ops[i];
    PoolOp& own = ops.emplace_back(PoolOp{number, i, {}, {}, {}});
    for (const CompareInput& input : op.inputs) {
      if (!input.is_read) continue;
      std::uint32_t tensor = kNoOp;
      if (input.from != kNoOp) {
        const auto at = made[input.from].find(input.from_slot);
        // An internal result, which no record has, goes wrong with the others.
        if (at != made[input.from].end()) {
          tensor = read_of(at->second, {&rank, input.tensor});
          add_reader(at->second, first + i);  // of the part, too: something reads it
        } else if (!made[input.from].empty()) {
          tensor = made[input.from].begin()->second;
        }
      } else if (!input.tensor->constant) {
        const bool is_named = input.tensor->parameter.is_parameter();
        const std::tuple key(std::string_view(input.tensor->parameter), is_named ? 0 : input.tensor->content,
                             is_named || input.tensor->content != 0 ? 0 : tensors.size());
        const auto [at, is_new] = outside.try_emplace(key, 0);
        if (is_new) at->second = add({.of = {&rank, input.tensor}, .step = number});
        tensor = at->second;
      }
      if (tensor == kNoOp) continue;
      own.inputs.push_back(tensor);
      own.slots.push_back(input.tensor->slot);
      add_reader(tensor, first + i);
    }
    const bool passes_weights =
        moves_or_casts(op.kind) && !own.inputs.empty() &&
        std::ranges::all_of(own.inputs, [&](auto input) { return tensors[input].holds_weights; });
    for (const CatalogTensor* output : op.outputs) {
      const std::uint32_t tensor =
          add({.of = {&rank, output}, .step = number, .op = first + i, .holds_weights = passes_weights});
      own.outputs.push_back(tensor);
      made[i].emplace(output->slot, tensor);
    }
  }
}

void Pool::read(const Threads& threads) { read(threads, Depth::parts, nullptr); }
void Pool::read_shapes(const Threads& threads) { read(threads, Depth::shapes, nullptr); }
void Pool::read_wholes(const Threads& threads, const std::vector<char>& wanted) {
  read(threads, Depth::wholes, &wanted);
}

void Pool::read(const Threads& threads, Depth depth, const std::vector<char>* wanted) {
  unreadable.clear();
  std::vector<std::string> problems(tensors.size());
  threads.for_each(tensors.size(), [&](std::size_t i) {
    if (wanted != nullptr && !(*wanted)[i]) return;
    PoolTensor& tensor = tensors[i];
    const CatalogTensor& known = *tensor.of.tensor;
    if (known.file.empty()) {
      tensor.print = print_of(known);
      return;
    }
    Result<TensorFile> opened = open_file(*tensor.of.rank, known);
    if (!opened) {
      problems[i] = opened.error().message;
      return;
    }
    const RealFile file(std::move(*opened));
    const TensorView view = file.view();
    tensor.dtype_of_file = file.file.view().dtype;
    tensor.shape = squeezed({view.shape.begin(), view.shape.end()});
    if (depth == Depth::shapes) {
      tensor.print = {};
      if (info(view.dtype).item_bytes == 0) return;
      tensor.print.count = static_cast<std::uint64_t>(view.elements());
      tensor.print.by_values = true;
    } else {
      tensor.print = print_of(view, tensor.shape, depth == Depth::parts);
    }
  });
  for (std::string& problem : problems) {
    if (!problem.empty()) unreadable.push_back(std::move(problem));
  }
}

PoolValues Pool::values_of(std::uint32_t tensor) const {
  if (tensors[tensor].computed != nullptr) return PoolValues(tensors[tensor].computed);
  const PoolTensor& wanted = tensors[tensor];
  if (wanted.of.tensor->file.empty()) return {};
  constexpr std::size_t kMost = 64;
  {
    const Lock lock(open_->mutex_);
    const auto known = std::ranges::find(open_->last, tensor, [](const auto& one) { return one.first; });
    if (known != open_->last.end()) return PoolValues(known->second);
  }
  Result<TensorFile> file = open_file(*wanted.of.rank, *wanted.of.tensor);
  if (!file) return {};
  auto opened = std::make_shared<const RealFile>(std::move(*file));
  const Lock lock(open_->mutex_);
  open_->last.emplace_back(tensor, opened);
  if (open_->last.size() > kMost) open_->last.pop_front();
  return PoolValues(std::move(opened));
}

RealFile::RealFile(TensorFile opened) : file(std::move(opened)) {
  const TensorView whole = file.view();
  if (!is_complex(whole.dtype) || whole.conjugate) return;
  shape.assign(whole.shape.begin(), whole.shape.end());
  shape.push_back(2);
  for (const std::int64_t stride : whole.strides) strides.push_back(2 * stride);
  strides.push_back(1);
}

TensorView RealFile::view() const {
  TensorView view = file.view();
  if (shape.empty()) return view;
  view.dtype = view.dtype == DType::complex32   ? DType::float16
               : view.dtype == DType::complex64 ? DType::float32
                                                : DType::float64;
  view.shape = shape;
  view.strides = strides;
  return view;
}

TensorView Computed::view() const {
  TensorView view;
  view.dtype = DType::float64;
  view.data = reinterpret_cast<const std::byte*>(values.data());
  view.shape = shape;
  view.strides = strides;
  return view;
}

void Pool::add_computed(std::uint32_t op, std::vector<std::int64_t> shape, std::vector<double> values) {
  auto computed = std::make_shared<Computed>();
  computed->strides.resize(shape.size());
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    computed->strides[axis] = stride;
    stride *= shape[axis];
  }
  computed->shape = std::move(shape);
  computed->values = std::move(values);
  if (computed->values.empty() || ops[op].outputs.empty()) return;
  PoolTensor tensor = {.of = tensors[ops[op].outputs[0]].of, .step = ops[op].step, .op = op};
  tensor.shape = squeezed(computed->shape);
  tensor.print = print_of(computed->view(), tensor.shape);
  tensor.computed = std::move(computed);
  tensors.push_back(std::move(tensor));
}

bool Pool::has_values() const {
  return std::ranges::any_of(tensors, [](const PoolTensor& one) { return one.print.by_values && one.op != kNoOp; });
}

std::string_view Pool::name_of(std::uint32_t tensor) const {
  const PoolTensor& one = tensors[tensor];
  return one.op == kNoOp ? std::string_view(one.of.tensor->parameter) : catalog_op(one.op).op_name;
}

std::vector<std::int64_t> PoolTensor::whole_shape() const {
  const auto& sizes = of.tensor->shape.values();
  return {sizes.begin(), sizes.end()};
}

bool Pool::is_type(std::uint32_t op, std::string_view bare) const { return bare_type(catalog_op(op).op_type) == bare; }

bool Pool::is_of_forward(std::uint32_t op) const {
  const Phase phase = phase_of(catalog_op(op));
  if (phase == Phase::backward || phase == Phase::optimizer) return false;
  const bool begins_backward =
      is_type(op, "oneslike") && !ops[op].outputs.empty() && tensors[ops[op].outputs[0]].print.count == 1;
  return !begins_backward;
}

LinePlace line_of(const CatalogOp& op) {
  return {std::string_view(op.source_file), static_cast<std::int64_t>(op.line), std::string_view(op.op_type)};
}

}  // namespace sonde
