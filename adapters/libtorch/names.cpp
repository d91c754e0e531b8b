#include "names.h"

#include <c10/util/Type.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <typeinfo>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "setup.h"
#include "synchronized.h"
#include "tensors.h"

namespace sonde_torch {
namespace {

struct Known {
  c10::weak_intrusive_ptr<c10::TensorImpl> alive;
  std::string name;  // "conv1.weight"
  const std::string* module;
  std::size_t depth;  // of the module: a name in a larger model is better
};

struct Registry {
  std::unordered_map<const c10::TensorImpl*, Known> tensors;
  std::unordered_map<std::string, std::string> labels;  // address and class of a root -> "network-Net"
  std::unordered_set<std::string> scopes;               // never erased: sites point to them
};

Synchronized<Registry>& registry() {
  static auto* leaked = new Synchronized<Registry>;  // threads may outlive static destruction
  return *leaked;
}

// "torch::nn::Conv2dImpl" -> "Conv2d"; the class that the user writes.
std::string class_name(const torch::nn::Module& module) {
  std::string name = c10::demangle(typeid(module).name());
  name = name.substr(0, name.find('<'));
  if (const std::size_t colon = name.rfind("::"); colon != std::string::npos) name = name.substr(colon + 2);
  if (name.size() > 4 && name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

bool is_plain_container(const std::string& type) {
  return type == "Sequential" || type == "ModuleList" || type == "ModuleDict";
}

// The root's label: "network-Net", of a second root "network1-Other". `first`: it is the first.
std::string label_of(Registry& known, const void* root, const std::string& type, bool& first) {
  const std::string key = std::to_string(reinterpret_cast<std::uintptr_t>(root)) + type;
  const auto [entry, fresh] = known.labels.try_emplace(key);
  if (fresh) {
    const std::size_t number = known.labels.size() - 1;
    entry->second = "network" + (number > 0 ? std::to_string(number) : "") + "-" + type;
  }
  first = entry->second.starts_with("network-");
  return entry->second;
}

void add(Registry& known, const at::Tensor& tensor, const std::string& name, const std::string& scope,
         std::size_t depth) {
  if (!tensor.defined()) return;
  const auto found = known.tensors.find(tensor.unsafeGetTensorImpl());
  if (found != known.tensors.end() && !found->second.alive.expired() && found->second.depth >= depth) return;
  const std::string* module = &*known.scopes.insert(scope).first;
  known.tensors.insert_or_assign(
      tensor.unsafeGetTensorImpl(),
      Known{c10::weak_intrusive_ptr<c10::TensorImpl>(tensor.getIntrusivePtr()), name, module, depth});
}

void add_module(Registry& known, const torch::nn::Module& module, const std::string& prefix, const std::string& scope,
                std::size_t depth) {
  for (const auto& parameter : module.named_parameters(false)) {
    add(known, parameter.value(), prefix + parameter.key(), scope, depth);
  }
  for (const auto& buffer : module.named_buffers(false)) {
    add(known, buffer.value(), prefix + buffer.key(), scope, depth);
  }
  for (const auto& child : module.named_children()) {
    const std::string type = class_name(*child.value());
    const std::string level = is_plain_container(type) ? child.key() : child.key() + "-" + type;
    add_module(known, *child.value(), prefix + child.key() + ".", scope + "/" + level, depth + 1);
  }
}

bool is_known(Registry& known, const at::Tensor& tensor) {
  const auto found = known.tensors.find(tensor.unsafeGetTensorImpl());
  return found != known.tensors.end() && !found->second.alive.expired();
}

// The module has no parameter that is not known already, in a model at least as large.
bool is_part_of_known(Registry& known, const torch::nn::Module& module) {
  const std::vector<at::Tensor> all = module.parameters(true);
  for (const at::Tensor& parameter : all) {
    if (!is_known(known, parameter)) return false;
  }
  return true;
}

void report_name(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  TensorDescriptor descriptor;
  descriptor.describe(tensor, false);
  api().name_tensor(name.c_str(), descriptor.get());
}

// The tensors of the state that PyTorch's own optimizers keep for a parameter.
void report_state(const std::string& name, torch::optim::OptimizerParamState& state) {
  if (auto* sgd = dynamic_cast<torch::optim::SGDParamState*>(&state)) {
    report_name("momentum_buffer." + name, sgd->momentum_buffer());
  } else if (auto* adam = dynamic_cast<torch::optim::AdamParamState*>(&state)) {
    report_name("exp_avg." + name, adam->exp_avg());
    report_name("exp_avg_sq." + name, adam->exp_avg_sq());
  } else if (auto* adamw = dynamic_cast<torch::optim::AdamWParamState*>(&state)) {
    report_name("exp_avg." + name, adamw->exp_avg());
    report_name("exp_avg_sq." + name, adamw->exp_avg_sq());
  } else if (auto* rmsprop = dynamic_cast<torch::optim::RMSpropParamState*>(&state)) {
    report_name("square_avg." + name, rmsprop->square_avg());
    report_name("momentum_buffer." + name, rmsprop->momentum_buffer());
    report_name("grad_avg." + name, rmsprop->grad_avg());
  } else if (auto* adagrad = dynamic_cast<torch::optim::AdagradParamState*>(&state)) {
    report_name("sum." + name, adagrad->sum());
  }
}

std::string name_of(const at::Tensor& tensor) {
  const auto known = registry().lock();
  const auto found = known->tensors.find(tensor.unsafeGetTensorImpl());
  return found != known->tensors.end() && !found->second.alive.expired() ? found->second.name : "";
}

}  // namespace

void learn_names(const torch::nn::Module& module) {
  const auto known = registry().lock();
  if (is_part_of_known(*known, module)) return;
  bool first = false;
  const std::string label = label_of(*known, &module, class_name(module), first);
  add_module(*known, module, first ? "" : label + ".", label, 0);
}

std::string learn_names(const torch::jit::Module& module) {
  const auto known = registry().lock();
  bool first = false;
  const auto name = module.type()->name();
  const std::string label = label_of(*known, module._ivalue().get(), name ? name->name() : "Module", first);
  const std::string prefix = first ? "" : label + ".";
  for (const auto& parameter : module.named_parameters(true)) {
    if (!is_known(*known, parameter.value)) add(*known, parameter.value, prefix + parameter.name, label, 0);
  }
  for (const auto& buffer : module.named_buffers(true)) {
    if (!is_known(*known, buffer.value)) add(*known, buffer.value, prefix + buffer.name, label, 0);
  }
  return label;
}

void name_optimizer(torch::optim::Optimizer& optimizer) {
  std::size_t group_number = 0;
  for (torch::optim::OptimizerParamGroup& group : optimizer.param_groups()) {
    std::size_t number = 0;
    for (const at::Tensor& parameter : group.params()) {
      std::string name = name_of(parameter);
      if (name.empty()) {
        name = "optimizer." + std::to_string(group_number) + "." + std::to_string(number);
        report_name(name, parameter);
      }
      report_name(name + ".grad", parameter.grad());
      const auto state = optimizer.state().find(parameter.unsafeGetTensorImpl());
      if (state != optimizer.state().end()) report_state(name, *state->second);
      ++number;
    }
    ++group_number;
  }
}

void report_names() {
  std::vector<std::pair<std::string, at::Tensor>> alive;
  {
    const auto known = registry().lock();
    for (const auto& [impl, entry] : known->tensors) {
      if (auto held = entry.alive.lock()) alive.emplace_back(entry.name, at::Tensor(std::move(held)));
    }
    std::erase_if(known->tensors, [](const auto& item) { return item.second.alive.expired(); });
  }
  for (const auto& [name, tensor] : alive) report_name(name, tensor);
}

const std::string* module_of(const at::TensorBase& tensor) {
  const auto known = registry().lock();
  const auto found = known->tensors.find(tensor.unsafeGetTensorImpl());
  return found != known->tensors.end() && !found->second.alive.expired() ? found->second.module : nullptr;
}

}  // namespace sonde_torch
