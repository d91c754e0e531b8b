// The facts about an operator from its schema, looked up by the address of its name.
#pragma once

#include <ATen/record_function.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace sonde_torch {

enum class ArgumentKind : std::uint8_t { other, tensor, tensor_list };

// The meaning of an argument's numbers.
enum class ArgumentForm : std::uint8_t { plain, dtype, layout, memory_format };

struct ArgumentInfo {
  std::string name;
  ArgumentKind kind = ArgumentKind::other;
  ArgumentForm form = ArgumentForm::plain;
  bool written = false;       // the schema or the table of unmarked writers says so
  bool result = false;        // of a collective: holds its result when it is complete
  bool only_written = false;  // its elements before do not matter: `out=`
  bool awaited = false;       // of `wait_tensor`: complete when it returns, and read then
};

struct OpInfo {
  std::string name;  // `aten::add_`
  std::string overload;
  std::string op_type;  // `add_`
  std::vector<ArgumentInfo> arguments;
  bool has_attributes = false;  // some argument is not a tensor
  bool writes = false;          // some argument is written
  // PyTorch's own, and its schema says all that it writes: the operators that it calls have nothing to add, unless they
  // make nodes for backward.
  bool schema_says_all = false;
  mutable std::atomic<bool> calls_operators{false};  // one was seen while it ran
  bool returns_nothing = false;                      // `-> ()`: the results are the written arguments
  bool uninitialised = false;                        // `empty`: the bytes of the result have no meaning
  // `lift_fresh`: torch.tensor and similar functions have filled their result without an operator
  bool initialises = false;
  bool ignored = false;          // bookkeeping that computes nothing (`profiler::…`)
  bool collective = false;       // of torch.distributed: writes its tensors, maybe after it has returned
  bool unfinished = false;       // its results have their values only after `wait_tensor`
  bool waits = false;            // `wait_tensor`
  bool equal_on_all = false;     // a collective: its results are equal on all ranks of the group
  bool barrier = false;          // its tensor has no meaning
  int non_blocking = -1;         // the place of the argument of this name; true: the host does not wait for a device
  c10::DispatchKeySet autocast;  // of the devices whose autocast makes this op cast and call itself again
  std::uint32_t number = 0;      // for cheap hashing, from 1
};

// True for `empty`, `new_empty` and the like.
bool gives_unwritten_memory(std::string_view type);

// Null for events that are not operators (string-named ranges). Cheap: one look-up in a table of this thread.
const OpInfo* op_info(const at::RecordFunction& fn);

}  // namespace sonde_torch
