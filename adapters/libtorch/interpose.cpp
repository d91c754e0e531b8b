// The functions of libtorch that this library puts itself in front of. libsonde_torch.so comes before libtorch in the
// order in which the dynamic linker looks for a symbol (LD_PRELOAD, or linked first), so calls reach these functions. Each
// passes on to libtorch's own, with the same arguments, and returns its result. Their names are those of the compiler.
#include <dlfcn.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/optim/optimizer.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>

#include "names.h"
#include "recording.h"
#include "scopes.h"
#include "setup.h"
#include "thread_state.h"

// NOLINTBEGIN(bugprone-reserved-identifier): the names are given
#define SONDE_INTERPOSED extern "C" __attribute__((visibility("default")))

namespace {

using torch::optim::Optimizer;
using Closure = Optimizer::LossClosure;
using torch::nn::Module;

template <typename Function>
Function original(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

// Calls among libtorch's own functions come here too; only the program's counts.
thread_local int t_depth = 0;
struct Inside {
  Inside() { ++t_depth; }
  ~Inside() { --t_depth; }
};

// Whatever goes wrong here is Sonde's own, and the program goes on without it.
template <typename Look>
void look(Look look_at) {
  if (sonde_torch::is_inert() || t_depth > 0) return;
  const Inside inside;
  sonde_torch::ThreadState& state = sonde_torch::thread_state();
  const bool busy = std::exchange(state.busy, true);
  try {
    look_at();
  } catch (...) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) std::fputs("sonde: the names of a module's parameters are not known\n", stderr);
  }
  state.busy = busy;
}

at::Tensor step(Optimizer* self, Closure&& closure, const char* type, const char* name) {
  using Step = at::Tensor (*)(Optimizer*, Closure);
  const auto next = original<Step>(name);
  if (sonde_torch::is_inert()) return next(self, std::move(closure));
  sonde_torch::optimizer_exists();
  look([&] { sonde_torch::name_optimizer(*self); });
  at::Tensor loss;
  {
    sonde_torch::OptimizerStep here(type);
    loss = next(self, std::move(closure));
    here.returned();
  }
  if (sonde_torch::thread_state().optimizer_depth == 0) sonde_torch::look_after_step();
  return loss;
}

}  // namespace

#define SONDE_STEP(type, symbol)                                         \
  SONDE_INTERPOSED at::Tensor symbol(Optimizer* self, Closure closure) { \
    return step(self, std::move(closure), type, #symbol);                \
  }
SONDE_STEP("SGD", _ZN5torch5optim3SGD4stepESt8functionIFN2at6TensorEvEE)
SONDE_STEP("Adam", _ZN5torch5optim4Adam4stepESt8functionIFN2at6TensorEvEE)
SONDE_STEP("AdamW", _ZN5torch5optim5AdamW4stepESt8functionIFN2at6TensorEvEE)
SONDE_STEP("Adagrad", _ZN5torch5optim7Adagrad4stepESt8functionIFN2at6TensorEvEE)
SONDE_STEP("RMSprop", _ZN5torch5optim7RMSprop4stepESt8functionIFN2at6TensorEvEE)
SONDE_STEP("LBFGS", _ZN5torch5optim5LBFGS4stepESt8functionIFN2at6TensorEvEE)
#undef SONDE_STEP

// Every optimizer, also of the program's own class, gets its parameters so.
SONDE_INTERPOSED void _ZN5torch5optim9Optimizer15add_param_groupERKNS0_19OptimizerParamGroupE(
    Optimizer* self, const torch::optim::OptimizerParamGroup& group) {
  using Add = void (*)(Optimizer*, const torch::optim::OptimizerParamGroup&);
  sonde_torch::optimizer_exists();
  original<Add>("_ZN5torch5optim9Optimizer15add_param_groupERKNS0_19OptimizerParamGroupE")(self, group);
}

// torch::nn::Module::parameters, named_parameters, eval, train: what a program asks of a whole model.
SONDE_INTERPOSED std::vector<at::Tensor> _ZNK5torch2nn6Module10parametersEb(const Module* self, bool recurse) {
  using Parameters = std::vector<at::Tensor> (*)(const Module*, bool);
  look([&] { sonde_torch::learn_names(*self); });
  return original<Parameters>("_ZNK5torch2nn6Module10parametersEb")(self, recurse);
}

SONDE_INTERPOSED void _ZN5torch2nn6Module4evalEv(Module* self) {
  using Eval = void (*)(Module*);
  look([&] { sonde_torch::learn_names(*self); });
  const Inside inside;
  original<Eval>("_ZN5torch2nn6Module4evalEv")(self);
}

SONDE_INTERPOSED void _ZN5torch2nn6Module5trainEb(Module* self, bool on) {
  using Train = void (*)(Module*, bool);
  look([&] { sonde_torch::learn_names(*self); });
  const Inside inside;
  original<Train>("_ZN5torch2nn6Module5trainEb")(self, on);
}

#if _GLIBCXX_USE_CXX11_ABI
#define SONDE_NAMED_PARAMETERS _ZNK5torch2nn6Module16named_parametersB5cxx11Eb
#else
#define SONDE_NAMED_PARAMETERS _ZNK5torch2nn6Module16named_parametersEb
#endif
#define SONDE_TEXT_OF(name) #name
#define SONDE_TEXT(name) SONDE_TEXT_OF(name)

SONDE_INTERPOSED torch::OrderedDict<std::string, at::Tensor> SONDE_NAMED_PARAMETERS(const Module* self, bool recurse) {
  using Named = torch::OrderedDict<std::string, at::Tensor> (*)(const Module*, bool);
  static const auto next = original<Named>(SONDE_TEXT(SONDE_NAMED_PARAMETERS));
  if (recurse) look([&] { sonde_torch::learn_names(*self); });
  return next(self, recurse);
}

// A method of a TorchScript module: the call of a model, unless another one has called it.
#if _GLIBCXX_USE_CXX11_ABI
#define SONDE_METHOD \
  _ZNK5torch3jit6MethodclESt6vectorIN3c106IValueESaIS4_EERKSt13unordered_mapINSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES4_St4hashISD_ESt8equal_toISD_ESaISt4pairIKSD_S4_EEE
#else
#define SONDE_METHOD \
  _ZNK5torch3jit6MethodclESt6vectorIN3c106IValueESaIS4_EERKSt13unordered_mapISsS4_St4hashISsESt8equal_toISsESaISt4pairIKSsS4_EEE
#endif

SONDE_INTERPOSED c10::IValue SONDE_METHOD(const torch::jit::Method* self, std::vector<c10::IValue> stack,
                                          const torch::jit::Kwargs& kwargs) {
  using Call = c10::IValue (*)(const torch::jit::Method*, std::vector<c10::IValue>, const torch::jit::Kwargs&);
  static const auto next = original<Call>(SONDE_TEXT(SONDE_METHOD));
  if (sonde_torch::is_inert()) return next(self, std::move(stack), kwargs);
  const torch::jit::Module owner = self->owner();
  std::string label;
  look([&] { label = sonde_torch::learn_names(owner); });
  const sonde_torch::RootCall call(owner._ivalue().get());
  std::string& root = sonde_torch::scopes().script_root;
  const std::string before = std::exchange(root, label);
  struct Restore {
    std::string& root;
    const std::string& before;
    ~Restore() { root = before; }
  } const restore{root, before};
  return next(self, std::move(stack), kwargs);
}
// NOLINTEND(bugprone-reserved-identifier)
