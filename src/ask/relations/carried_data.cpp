#include "ask/relations/carried_data.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "ground/model/data_name.h"

namespace sonde {
namespace {

// Equal to the last digit: a copy, or the memory itself.
using ExactNumbers = std::tuple<std::uint64_t, double, double, double, double, std::vector<std::int64_t>>;

ExactNumbers exact_numbers(const PoolTensor& tensor) {
  const TensorPrint& print = tensor.print;
  return {print.count, print.whole.sum, print.whole.norm, print.min, print.max, tensor.shape};
}

// Data of the program has a name.
bool may_be_carried(const PoolTensor& tensor) {
  const NameKind kind = tensor.of.tensor->parameter.kind;
  const bool is_data = kind == NameKind::data || kind == NameKind::parameter;
  return tensor.op == kNoOp && !is_data && tensor.has_fractions() && !tensor.print.proves_nothing();
}

void add_reader(PoolTensor& tensor, std::uint32_t op) {
  const auto at = std::ranges::lower_bound(tensor.readers, op);
  if (at == tensor.readers.end() || *at != op) tensor.readers.insert(at, op);
}

// The buffer is zero elsewhere: it pads what was written into it.
bool is_padded(const PoolTensor& buffer, const PoolTensor& part) {
  constexpr double kSame = 1e-6;
  const Extent &all = buffer.print.whole, &own = part.print.whole;
  const auto near = [&](double a, double b) { return std::abs(a - b) <= kSame * own.norm; };
  return part.print.count > 0 && buffer.print.count > part.print.count && near(all.norm, own.norm) &&
         near(all.sum, own.sum);
}

void read_instead(Pool& pool, std::uint32_t old, std::uint32_t other) {
  for (const std::uint32_t reader : pool.tensors[old].readers) {
    std::ranges::replace(pool.ops[reader].inputs, old, other);
    add_reader(pool.tensors[other], reader);
  }
  pool.tensors[old].readers.clear();
}

}  // namespace

void join_carried_data(Pool& pool) {
  std::map<ExactNumbers, std::uint32_t> made;  // the last result with these numbers
  for (std::uint32_t op = 0; op < pool.ops.size(); ++op) {
    for (std::uint32_t& input : pool.ops[op].inputs) {
      if (!may_be_carried(pool.tensors[input])) continue;
      const auto maker = made.find(exact_numbers(pool.tensors[input]));
      if (maker == made.end() || pool.tensors[maker->second].step >= pool.ops[op].step) continue;
      std::erase(pool.tensors[input].readers, op);
      input = maker->second;
      add_reader(pool.tensors[input], op);
    }
    for (const std::uint32_t output : pool.ops[op].outputs) {
      const PoolTensor& own = pool.tensors[output];
      if (own.has_fractions() && !own.print.proves_nothing()) made[exact_numbers(own)] = output;
    }
  }
}

void drop_padded_buffers(Pool& pool) {
  for (PoolOp& op : pool.ops) {
    for (std::size_t i = 1; i < op.outputs.size(); ++i) {
      PoolTensor& buffer = pool.tensors[op.outputs[i]];
      if (buffer.of.tensor == nullptr || !buffer.of.tensor->is_input) continue;  // of a record of its reader
      if (!is_padded(buffer, pool.tensors[op.outputs[0]])) continue;
      read_instead(pool, op.outputs[i], op.outputs[0]);
      buffer.print = {};
    }
  }
}

}  // namespace sonde
