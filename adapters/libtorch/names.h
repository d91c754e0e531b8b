// The names of modules and of the tensors in them. A torch::nn::Module does not know who contains it, and nothing
// announces the call of its forward. But nearly every program asks its model for its parameters, or changes its mode:
// then the whole tree of modules is looked at, and an operator that reads a parameter belongs to the parameter's module.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

namespace torch::nn {
class Module;
}
namespace torch::jit {
struct Module;
}
namespace torch::optim {
class Optimizer;
}

namespace sonde_torch {

// On the thread that has just called the module, which is alive.
void learn_names(const torch::nn::Module& module);
// Returns its label, "network-Net".
std::string learn_names(const torch::jit::Module& module);
// Gradients and state of an optimizer, before its step.
void name_optimizer(torch::optim::Optimizer& optimizer);

// Reports the names of all known parameters that are alive; once a step.
void report_names();

// The path of the module that has this parameter or buffer, "network-Net/conv1-Conv2d"; null: it is not known. The text
// lives as long as the process.
const std::string* module_of(const at::TensorBase& tensor);

}  // namespace sonde_torch
