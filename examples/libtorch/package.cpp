// Runs a package of AOTInductor three times, without Python: package net.pt2
//
// A package that was made while Sonde recorded has taps: sonde run --out /data/package -- example/package net.pt2
#include <ATen/ops/full.h>
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>

#include <cstdio>

int main(int count, char** arguments) {
  if (count != 2) {
    std::fputs("usage: package FILE.pt2\n", stderr);
    return 2;
  }
  torch::inductor::AOTIModelPackageLoader model(arguments[1]);
  for (int i = 1; i <= 3; ++i) {
    const std::vector<at::Tensor> results = model.run({at::full({4, 8}, 0.1 * i)});
    std::printf("%a\n", results.at(0).sum().item<double>());
  }
}
