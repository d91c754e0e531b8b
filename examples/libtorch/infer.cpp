// Runs a TorchScript module that Python has saved (torch.jit.script(net).save("net.pt")), three times. A scope gives the
// operators around it a name; it costs nothing where Sonde is not loaded.
#include <ATen/Parallel.h>
#include <torch/script.h>

#include <cstdio>

#include "sonde/libtorch.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: infer net.pt\n");
    return 2;
  }
  const c10::InferenceMode no_gradients;
  at::set_num_threads(1);
  torch::jit::Module net = torch::jit::load(argv[1]);
  net.eval();
  for (int i = 0; i < 3; ++i) {
    const sonde::Scope batch("batch");
    const torch::Tensor x = torch::full({2, 1, 8, 8}, 0.5 + i);
    const torch::Tensor y = net.forward({x / 2}).toTensor();
    std::printf("%a\n", y.sum().item<double>());
  }
}
