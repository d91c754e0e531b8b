// Trains a small convolution net for some steps. `train --plant` takes the logarithm of a negative number in step 2;
// `train --adam`, `--rmsprop` and `--adagrad` use another optimizer.
#include <torch/torch.h>

#include <cstdio>
#include <memory>
#include <string_view>

struct Net : torch::nn::Module {
  Net() {
    conv = register_module("conv", torch::nn::Conv2d(1, 4, 3));
    norm = register_module("norm", torch::nn::BatchNorm2d(4));
    head = register_module("head", torch::nn::Sequential(torch::nn::Flatten(), torch::nn::Linear(144, 3)));
  }

  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(norm(conv(x)));
    return head->forward(x);
  }

  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Sequential head{nullptr};
};

std::unique_ptr<torch::optim::Optimizer> optimizer_of(std::string_view option, const Net& net) {
  using namespace torch::optim;
  if (option == "--adam") return std::make_unique<Adam>(net.parameters(), AdamOptions(0.01));
  if (option == "--rmsprop") return std::make_unique<RMSprop>(net.parameters(), RMSpropOptions(0.01).momentum(0.9));
  if (option == "--adagrad") return std::make_unique<Adagrad>(net.parameters(), AdagradOptions(0.01));
  return std::make_unique<SGD>(net.parameters(), SGDOptions(0.1).momentum(0.9));
}

int main(int argc, char** argv) {
  const std::string_view option = argc > 1 ? argv[1] : "";
  torch::manual_seed(0);
  torch::set_num_threads(1);
  auto net = std::make_shared<Net>();
  const std::unique_ptr<torch::optim::Optimizer> optimizer = optimizer_of(option, *net);
  for (int step = 0; step < 4; ++step) {
    optimizer->zero_grad();
    torch::Tensor y = net->forward(torch::randn({2, 1, 8, 8}));
    if (option == "--plant" && step == 2) y = torch::log(y - 10);
    const torch::Tensor loss = y.square().mean();
    loss.backward();
    optimizer->step();
    std::printf("step %d: loss %a\n", step, loss.item<double>());
  }
}
