#include "op_tensors.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "collectives.h"
#include "device.h"
#include "groups.h"
#include "process_groups.h"
#include "program.h"
#include "setup.h"
#include "watched.h"

namespace sonde_torch {
namespace {

InputArgument& next_input(ThreadState& state) {
  if (state.input_count == state.inputs.size()) state.inputs.push_back(std::make_unique<InputArgument>());
  return *state.inputs[state.input_count++];
}

// Memory of the host to which a device still copies.
bool is_coming(const TensorDescriptor& described) {
  return described.device.is_cpu() && described.tensor.skip == nullptr && is_on_its_way(described.tensor.storage);
}

void skip_unless_there(TensorDescriptor& described) {
  if (in_trial() && described.tensor.skip == nullptr) described.tensor.skip = "of a trial run";
  if (is_coming(described)) described.tensor.skip = "a copy from a device, not yet complete";
}

void place_in(const Layout* layout, sonde_tensor& tensor) {
  tensor.placement = layout != nullptr ? layout->text.c_str() : nullptr;
  tensor.writer = layout != nullptr ? layout->writer : 0;
}

void collect_tensor(ThreadState& state, const c10::IValue& value, std::uint32_t slot, const ArgumentInfo& argument) {
  if (!value.isTensor()) return;
  const at::Tensor& tensor = value.toTensor();  // a reference: copying the handle may take the GIL
  if (!tensor.defined()) return;
  // A reference into the stack of this thread; unique_ptr keeps it in place when the stack grows.
  InputArgument& input = next_input(state);
  input.slot = slot;
  input.written = argument.written;
  input.only_written = argument.only_written;
  input.result = argument.result;
  input.reported = false;
  input.descriptor.describe(tensor, true);
  place_in(placement_in_group(state, tensor), input.descriptor.tensor);
  if (!argument.awaited) meet_collectives(input.descriptor.tensor);
  skip_unless_there(input.descriptor);
}

void collect_list(ThreadState& state, const c10::IValue& list, std::uint32_t& slot, const ArgumentInfo& argument) {
  for (const c10::IValue& element : list.toListRef()) {
    if (element.isList()) {
      collect_list(state, element, slot, argument);  // collectives take lists of lists
    } else {
      collect_tensor(state, element, slot++, argument);
    }
  }
}
// Memory that is shared under another identity (NumPy, DLPack): known facts may no longer be true.
bool has_aliases(const InputArgument& input) { return (input.descriptor.tensor.flags & SONDE_TENSOR_FOREIGN) != 0; }

// Null: none of the inputs lies there.
const sonde_tensor* input_in(const ThreadState& state, const Frame& frame, std::uint64_t storage) {
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    if (state.inputs[i]->descriptor.tensor.storage == storage) return &state.inputs[i]->descriptor.tensor;
  }
  return nullptr;
}

// `empty` gives fresh memory. `resize_` keeps the bytes that there were, but changes of size are known to it alone.
void mark_unwritten(const sonde_tensor* before, TensorDescriptor& out) {
  if (before == nullptr) {
    out.set_unwritten();
  } else if (out.tensor.storage_bytes > before->storage_bytes) {
    api().storage_allocated(out.get(), before->storage_bytes);
  }
}

// A result of a copy that is under way has the elements of the only tensor of a device among the arguments.
void read_at_source(const ThreadState& state, const Frame& frame, TensorDescriptor& result) {
  const TensorDescriptor* source = nullptr;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    const TensorDescriptor& input = state.inputs[i]->descriptor;
    if (input.device.is_cpu()) continue;
    if (source != nullptr) return;
    source = &input;
  }
  if (source != nullptr) static_cast<void>(result.read_at(*source));
}

// Of an argument that the op returns. The layout of a new result is not known before its group has ended.
void give_placement_of_argument(const ThreadState& state, const Frame& frame, sonde_tensor& result) {
  result.placement = nullptr;
  result.writer = 0;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    const sonde_tensor& input = state.inputs[i]->descriptor.tensor;
    if (input.object != result.object) continue;
    result.placement = input.placement;
    result.writer = input.writer;
    return;
  }
}

// `tensor` in the thread's scratch, as a result of the op. Checked outputs were reported before.
TensorDescriptor& describe_output(ThreadState& state, Frame& frame, const at::Tensor& tensor) {
  TensorDescriptor& out = state.scratch;
  out.describe(tensor, false);
  meet_collectives(out.tensor);  // a view of what one of them has not written yet
  // Memory that no argument had is new, whatever the schema says about aliases: `to` and `reshape` may copy or not.
  const sonde_tensor* const before = input_in(state, frame, out.tensor.storage);
  if (!frame.looked && out.tensor.storage != 0 && before == nullptr) {
    api().op_mutated(frame.op, out.tensor.storage);
  }
  if (frame.early && is_coming(out)) read_at_source(state, frame, out);
  skip_unless_there(out);
  if (frame.info->uninitialised && out.tensor.skip == nullptr) mark_unwritten(before, out);
  give_placement_of_argument(state, frame, out.tensor);
  return out;
}

// Calls `report(tensor, slot)` for the defined ones of the last `count` outputs.
template <typename Report>
void for_each_output(const std::vector<c10::IValue>& outputs, std::size_t count, Report report) {
  const std::size_t first = outputs.size() > count ? outputs.size() - count : 0;
  std::uint32_t slot = 0;
  for (std::size_t i = first; i < outputs.size(); ++i) {
    if (outputs[i].isTensor()) {
      if (outputs[i].toTensor().defined()) report(outputs[i].toTensor(), slot);
      ++slot;
    } else if (outputs[i].isList()) {
      for (const c10::IValue& element : outputs[i].toListRef()) {
        if (!element.isTensor()) break;
        if (element.toTensor().defined()) report(element.toTensor(), slot);
        ++slot;
      }
    }
  }
}

void report_outputs(ThreadState& state, Frame& frame, const std::vector<c10::IValue>& outputs, std::size_t count) {
  const bool keeps = (frame.wanted & SONDE_WANT_WEAK_REF) != 0;
  for_each_output(outputs, count, [&](const at::Tensor& tensor, std::uint32_t slot) {
    api().op_output(frame.op, slot, describe_output(state, frame, tensor).get());
    if (keeps) keep_watched(api().op_watch_id(frame.op), slot, tensor);
  });
}

// SONDE_WANT_CHECK: the outputs of the op decide if it is recorded.
void look_at_outputs(ThreadState& state, Frame& frame, const std::vector<c10::IValue>& outputs, std::size_t count) {
  if (frame.info->returns_nothing) {
    for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
      InputArgument& input = *state.inputs[i];
      if (input.written && input.descriptor.still_valid()) api().op_check_output(frame.op, input.descriptor.get());
    }
    return;
  }
  for_each_output(outputs, count, [&](const at::Tensor& tensor, std::uint32_t) {
    api().op_check_output(frame.op, describe_output(state, frame, tensor).get());
  });
  frame.looked = true;
}

// `-> ()`: the written arguments are the result. Their handles are gone, so the memory is checked to be in its place.
void report_written_arguments(ThreadState& state, Frame& frame) {
  std::uint32_t slot = 0;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (!input.written) continue;
    skip_unless_there(input.descriptor);
    if (input.descriptor.still_valid()) api().op_output(frame.op, slot, input.descriptor.get());
    ++slot;
  }
}

// For a failed op it returns when everything is on disk; other threads need not wait for that.
void end_recorded(sonde_op* op, unsigned wanted, bool failed) {
  const bool waits = failed && (wanted & SONDE_WANT_FAILURE) != 0;
  void* python = waits ? release_python() : nullptr;
  api().op_end(op, failed ? 1 : 0);
  take_python(python);
}

// Its elements may be the op's result later.
void report_input(const Frame& frame, InputArgument& input, bool before) {
  const char*& skip = input.descriptor.tensor.skip;
  const char* const own = skip;
  if (input.only_written && skip == nullptr) skip = "only written";
  (before ? api().op_input_before : api().op_input)(frame.op, input.slot, input.descriptor.get());
  skip = own;
}

void report_inputs(ThreadState& state, const Frame& frame, bool unfinished_later) {
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (input.reported || (unfinished_later && is_unfinished(input.descriptor.tensor))) continue;
    input.descriptor.skip_if_released();
    report_input(frame, input, false);
  }
}

// Whether an argument can be read only before the op runs: it is overwritten, or it is a number that the call has wrapped
// as a tensor, which a boxed kernel takes from the stack and frees.
bool is_lost_after(const ThreadState& state, const Frame& frame, const InputArgument& input) {
  if ((input.descriptor.tensor.flags & SONDE_TENSOR_CONSTANT) != 0 || input.written) return true;
  if (!frame.info->writes) return false;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    const InputArgument& other = *state.inputs[i];
    if (other.written && share_memory(other.descriptor.tensor, input.descriptor.tensor)) return true;
  }
  return false;
}

// The op will write it: what was known of the memory does not hold any more, and fresh memory is as fresh as before.
void report_coming_write(sonde_op* op, TensorDescriptor& coming) {
  sonde_tensor none = *coming.get();
  constexpr std::int64_t kNone[] = {0}, kStride[] = {1};
  none.ndim = 1;
  none.shape = kNone;
  none.strides = kStride;
  api().op_wrote_part(op, &none);
}

// Collectives report later, and an op that has thrown has no results.
void report_results(ThreadState& state, Frame& frame, const at::RecordFunction& fn) {
  if (frame.info->returns_nothing) {
    report_written_arguments(state, frame);
  } else {
    report_outputs(state, frame, fn.outputs(), fn.num_outputs());
  }
}

// A collective's results are among its arguments, and there when its work is complete.
void end_collective(ThreadState& state, Frame& frame, const std::vector<c10::IValue>& outputs) {
  std::vector<TensorDescriptor> results;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (input.result) {
      results.push_back(std::move(input.descriptor));
      results.back().tensor.writer = frame.call.writer;
    } else if (input.written) {
      api().storage_changed(input.descriptor.tensor.storage);  // may not be a result of any op
    }
  }
  complete_later(api(), frame.op, std::move(results), outputs);
}

void end_wait(const ThreadState& state, const Frame& frame) {
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    const sonde_tensor& tensor = state.inputs[i]->descriptor.tensor;
    if (!tensor_waited(tensor)) api().storage_changed(tensor.storage);  // by a collective that was not recorded
  }
}

// The results of a functional collective are there when somebody has waited for them.
void end_functional_collective(const Frame& frame, const at::RecordFunction& fn) {
  std::vector<TensorDescriptor> results;
  for_each_output(fn.outputs(), fn.num_outputs(), [&](const at::Tensor& tensor, std::uint32_t) {
    results.emplace_back().describe(tensor, true);
    results.back().tensor.writer = frame.call.writer;
  });
  complete_when_waited(api(), frame.op, std::move(results));
}

// A view of what a functional collective has not written yet: its values come with those of the collective.
bool views_unfinished(const ThreadState& state, const Frame& frame, const at::RecordFunction& fn) {
  const auto first = state.inputs.begin() + static_cast<std::ptrdiff_t>(frame.first_input);
  const auto last = state.inputs.begin() + static_cast<std::ptrdiff_t>(state.input_count);
  const auto is_late = [](const auto& input) { return is_unfinished(input->descriptor.tensor); };
  if (frame.info->writes || frame.info->waits || std::none_of(first, last, is_late)) return false;
  bool all = !frame.info->returns_nothing;
  for_each_output(fn.outputs(), fn.num_outputs(), [&](const at::Tensor& tensor, std::uint32_t) {
    TensorDescriptor output;
    output.describe(tensor, false);
    all = all && std::any_of(first, last, [&](const auto& input) {
            return is_late(input) && input->descriptor.tensor.storage == output.tensor.storage;
          });
  });
  return all;
}

void end_view_of_unfinished(ThreadState& state, const Frame& frame, const at::RecordFunction& fn) {
  std::vector<LateInput> inputs;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (!is_unfinished(input.descriptor.tensor)) continue;
    input.descriptor.tensor.skip = nullptr;
    inputs.push_back({input.slot, std::move(input.descriptor)});
  }
  std::vector<TensorDescriptor> results;
  for_each_output(fn.outputs(), fn.num_outputs(),
                  [&](const at::Tensor& tensor, std::uint32_t) { results.emplace_back().describe(tensor, true); });
  complete_with_collective(api(), frame.op, std::move(inputs), std::move(results));
}
}  // namespace

void collect_inputs(ThreadState& state, const OpInfo& info, c10::ArrayRef<const c10::IValue> values) {
  std::uint32_t slot = 0;
  const std::size_t first = state.input_count;
  for (std::size_t i = 0; i < info.arguments.size() && i < values.size(); ++i) {
    const ArgumentInfo& argument = info.arguments[i];
    if (argument.kind == ArgumentKind::tensor) {
      collect_tensor(state, values[i], slot++, argument);
    } else if (argument.kind == ArgumentKind::tensor_list && values[i].isList()) {
      collect_list(state, values[i], slot, argument);
    }
  }
  if (!info.barrier) return;
  for (std::size_t i = first; i < state.input_count; ++i) {
    const char*& skip = state.inputs[i]->descriptor.tensor.skip;
    if (skip == nullptr) skip = "uninitialised memory";
  }
}

c10::ArrayRef<const c10::IValue> arguments_of(const at::RecordFunction& fn) {
  const c10::ArrayRef<const c10::IValue> values = fn.inputs();
  const std::size_t count = std::min<std::size_t>(fn.num_inputs(), values.size());
  return values.slice(values.size() - count, count);  // boxed calls give the whole stack
}

c10::ArrayRef<const c10::IValue> results_of(const at::RecordFunction& fn) {
  const std::vector<c10::IValue>& outputs = fn.outputs();
  const std::size_t count = std::min<std::size_t>(fn.num_outputs(), outputs.size());
  return c10::ArrayRef<const c10::IValue>(outputs.data() + (outputs.size() - count), count);
}

void report_unrecorded_writes(ThreadState& state, const at::RecordFunction& fn, const OpInfo& info, sonde_op* op) {
  const std::size_t first = state.input_count;
  collect_inputs(state, info, arguments_of(fn));
  while (state.input_count > first) {
    InputArgument& input = *state.inputs[--state.input_count];
    const std::uint64_t storage = input.descriptor.tensor.storage;
    if (input.written && storage != 0) {
      if (op == nullptr || has_aliases(input)) api().storage_changed(has_aliases(input) ? 0 : storage);
      if (op != nullptr) report_write(api(), op, input.descriptor);
    }
    input.descriptor.alive.reset();
  }
}

void report_before(ThreadState& state, const Frame& frame) {
  const LaunchTogether together;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (!is_lost_after(state, frame, input)) continue;
    report_input(frame, input, true);
    input.reported = true;
  }
}

void end_op(ThreadState& state, Frame& frame, const at::RecordFunction& fn) {
  const std::vector<c10::IValue>& outputs = fn.outputs();
  const bool failed = (outputs.empty() && !frame.info->returns_nothing) ||
                      std::uncaught_exceptions() > frame.exceptions;  // an op without results ends by throwing
  const bool completes_later = (frame.info->collective || frame.info->unfinished) && !failed;
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    InputArgument& input = *state.inputs[i];
    if (!input.written && !frame.info->initialises) continue;
    if (frame.info->uninitialised) continue;  // allocates at most
    if (has_aliases(input)) api().storage_changed(0);
    if (completes_later && input.result) {
      report_coming_write(frame.op, input.descriptor);
    } else {
      report_write(api(), frame.op, input.descriptor);
    }
  }
  if (frame.info->waits && !failed) end_wait(state, frame);
  if (const std::uint64_t number = number_of_call(frame.call); number != 0) api().op_call_number(frame.op, number);
  const bool is_late_view = !failed && !completes_later && views_unfinished(state, frame, fn);
  if (failed) {
    state.failed_last = true;
    if ((frame.wanted & SONDE_WANT_FAILURE) != 0) api().op_failed(frame.op);
  }
  {
    const LaunchTogether together;
    if ((frame.wanted & SONDE_WANT_CHECK) != 0 && !failed && !completes_later && !is_late_view) {
      look_at_outputs(state, frame, outputs, fn.num_outputs());
    }
    report_inputs(state, frame, is_late_view);
    if (is_late_view) return end_view_of_unfinished(state, frame, fn);
    // Memory that it wrote before it threw is not a result.
    if (!failed && !completes_later) report_results(state, frame, fn);
    if (!completes_later && (frame.wanted & SONDE_WANT_WATCHED) != 0) report_watched(frame.op);
  }
  if (completes_later && frame.info->unfinished) return end_functional_collective(frame, fn);
  if (completes_later) return end_collective(state, frame, outputs);
  end_recorded(frame.op, frame.wanted, failed);
}

std::vector<TensorDescriptor> described_tensors(c10::ArrayRef<const c10::IValue> values) {
  std::vector<TensorDescriptor> tensors;
  for (const c10::IValue& value : values) {
    if (!value.isTensor() || !value.toTensor().defined()) continue;
    tensors.emplace_back().describe(value.toTensor(), true);
  }
  return tensors;
}

void report_failure(ThreadState& state, std::uint32_t site, sonde_graph graph, std::vector<TensorDescriptor>& inputs) {
  state.failed_last = true;
  sonde_op* op = nullptr;
  const unsigned wanted = api().op_begin(site, graph, 0, &op);
  if (wanted == 0) return;
  if ((wanted & SONDE_WANT_FAILURE) != 0) api().op_failed(op);
  std::uint32_t slot = 0;
  for (TensorDescriptor& input : inputs) {
    input.skip_if_released();
    api().op_input(op, slot++, input.get());
  }
  end_recorded(op, wanted, true);
}

void report_inner_results(ThreadState& state, const Frame& frame, const at::RecordFunction& fn) {
  const std::vector<c10::IValue>& outputs = fn.outputs();
  const std::size_t count = fn.num_outputs();
  for (std::size_t i = outputs.size() > count ? outputs.size() - count : 0; i < outputs.size(); ++i) {
    if (!outputs[i].isTensor() || !outputs[i].toTensor().defined()) continue;
    state.scratch.describe(outputs[i].toTensor(), false);
    if (state.scratch.fresh) api().op_mutated(frame.op, state.scratch.tensor.storage);
  }
}

void report_allocated(ThreadState& state, const at::RecordFunction& fn) {
  for_each_output(fn.outputs(), fn.num_outputs(), [&](const at::Tensor& tensor, std::uint32_t) {
    state.scratch.describe(tensor, false);
    if (state.scratch.tensor.storage != 0) api().storage_allocated(state.scratch.get(), 0);
  });
}

void drop_inputs(ThreadState& state, const Frame& frame) {
  while (state.input_count > frame.first_input) state.inputs[--state.input_count]->descriptor.alive.reset();
}

bool any_requires_grad(const ThreadState& state, const Frame& frame) {
  for (std::size_t i = frame.first_input; i < state.input_count; ++i) {
    if (state.inputs[i]->descriptor.requires_grad) return true;
  }
  return false;
}

}  // namespace sonde_torch
