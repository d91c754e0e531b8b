// CompareSide: one step of one dump, prepared for comparisons: ops with their inputs, outputs and readers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "read/catalog/catalog.h"
#include "read/catalog/step_graph.h"
#include "read/operators/op_family.h"

namespace sonde {

inline constexpr std::uint32_t kNoOp = 0xFFFFFFFF;

struct CompareInput {
  const CatalogTensor* tensor = nullptr;
  std::uint32_t from = kNoOp;  // op of the same side; kNoOp: a parameter, data, or unknown
  std::uint32_t from_slot = 0;
  bool is_read = true;        // false: only its shape counts, or the result goes there
  std::string_view name;      // of the parameter, gradient, state or data; the target's as in the golden dump
  std::uint64_t outside = 0;  // equal numbers: both read the same parameter or data; 0: unknown, or an op made it
};

struct CompareOp {
  const CatalogOp* op = nullptr;
  std::vector<CompareInput> inputs;           // by slot
  std::vector<const CatalogTensor*> outputs;  // by slot
  std::vector<std::uint32_t> readers;         // ops, each once, in order
  const OpFamilies::Family* family = nullptr;
  OpKind kind = OpKind::other;
  std::string_view scope;  // of the full name: `Default/network-Net/fc1-Linear`
  bool in_place = false;   // writes its own input
  bool unwritten = false;  // returns memory that was never written
  // By output: the parameter, gradient or state that it overwrites; empty: none.
  std::vector<std::string_view> states;
};

// The last writer of a parameter or state.
struct StateWriter {
  std::uint32_t op = kNoOp;
  const CatalogTensor* output = nullptr;
};

struct CompareSide {
  const CatalogRank* rank = nullptr;
  const CatalogStep* step = nullptr;
  std::vector<CompareOp> ops;  // in the order in which they ran; parameters are not among them
  std::vector<const CatalogOp*> parameters;
  bool has_flow = false;  // the dump says which op reads which output
  std::map<std::string_view, StateWriter> written;
  std::set<std::string_view> may_be_written;  // running statistics, by ops that do not return them

  const CatalogTensor* output(std::uint32_t op, std::uint32_t slot) const;  // null: none
};

// Where an op ran forward, and its type.
struct ForwardOrigin {
  std::string_view scope, type;
  auto operator<=>(const ForwardOrigin&) const = default;
};

// `Default/net` of `Gradients/Default/net`.
std::string_view without_gradients(std::string_view scope);
// The op whose gradient an op of the backward pass computes, by its name: `Default/net`, `tanh` of
// `Gradients/Default/net/Grad_tanh/…`. Empty: none.
ForwardOrigin differentiated_by(const CompareOp& op);

// A number of the program that the op reads; nothing: it reads none.
std::optional<double> number_read(const CompareOp& op);
// The number by which the op multiplies; nothing: it does something else, or multiplies by 0.
std::optional<double> number_multiplied_by(const CompareOp& op);

// It returns the memory of its input under another shape.
bool is_view(const CatalogOp& op);
// The step computes gradients, or updates parameters.
bool is_training(const CompareSide& side);
// Outside of modules, it makes integers of fractions, as the next token of scores. Its result may be the same although what
// it reads is not.
bool chooses(const CompareOp& op);

CompareSide side_of(const CatalogRank& rank, const CatalogStep& step, OpFamilies& families);

}  // namespace sonde
