#include "first_model.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <atomic>

#include "capture.h"
#include "frames.h"
#include "gil.h"
#include "program.h"
#include "setup.h"

namespace sonde_torch {
namespace {

constexpr std::uint32_t kOperatorsBetween = 64;  // operators without a sign; torch.distributed may have begun meanwhile

struct Search {
  FrameFacts frames;
  PyObject* model_may_run = nullptr;
  std::atomic<PyObject*> last_root{nullptr};  // not owned, only compared
  std::atomic<std::uint32_t> operators{0};
};
std::atomic<Search*> g_search{nullptr};  // never freed, as it may be in use on another thread

bool computes_gradients(const at::RecordFunction& fn) {
  if (!at::GradMode::is_enabled()) return false;
  const auto inputs = fn.inputs();
  return std::any_of(inputs.begin(), inputs.end(), [](const c10::IValue& value) {
    return value.isTensor() && value.toTensor().defined() && value.toTensor().requires_grad();
  });
}

void ask(const Search& search, PyObject* root, bool trains) {
  const Gil gil;
  const SavedError saved;
  const Untraced here;
  PyObject* answer =
      PyObject_CallFunction(search.model_may_run, "OO", root != nullptr ? root : Py_None, trains ? Py_True : Py_False);
  if (answer == nullptr) drop_error();
  Py_XDECREF(answer);
}

}  // namespace

void look_for_model(PyCodeObject* module_call, PyObject* model_may_run) {
  auto* search = new Search;
  search->frames.module_call = module_call;
  search->model_may_run = model_may_run;
  g_search.store(search);
  await_model(true);
}

bool first_model_runs(const at::RecordFunction& fn) {
  thread_local bool asking = false;
  Search* search = g_search.load();
  if (search == nullptr || asking || !python_is_alive() || current_frame() == nullptr || is_traced()) return false;
  int depth = 0;
  PyObject* root = outermost_module(search->frames, depth);
  const bool trains = fn.scope() == at::RecordScope::USER_SCOPE || computes_gradients(fn);
  const bool is_new = root != nullptr && search->last_root.exchange(root) != root;
  const bool asks_anyway = search->operators.fetch_add(1, std::memory_order_relaxed) % kOperatorsBetween == 0;
  if (!trains && !is_new && !asks_anyway) return false;
  asking = true;
  ask(*search, root, trains);
  asking = false;
  return !is_inert();
}

}  // namespace sonde_torch
