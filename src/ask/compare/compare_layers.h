// The error that each layer introduces: for a quantised model beside the one it came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ask/compare/compare.h"

namespace sonde {

// A layer is a module that runs ops itself. Its errors are relative, of what it reads first and of what it gives last.
struct LayerLoss {
  std::string
      layer;  // "encoder.0.fc"; the class of the module, which may be another one in the golden run, is left out
  std::size_t step = 0;           // index into DumpComparison::steps: the one in which it introduces most
  const CatalogOp* op = nullptr;  // of the target, that gives its result
  std::uint32_t place = 0;        // of that op, in the order of the target's ops
  ComparedBy by = ComparedBy::nothing;
  double error_in = 0, error_out = 0;
  double introduced = 0;       // what is in `error_out` beside `error_in`, as errors that are independent add up
  double signal_to_noise = 0;  // of the result, in decibels; infinite without an error
};

// The layers that both runs have in their forward passes, the one that introduces most first. Results are compared in
// the unit that a layer gives them: whatever integers it computes with in between.
std::vector<LayerLoss> layer_losses(const DumpComparison& comparison);
// Those of one step, the first to give its result first.
std::vector<LayerLoss> layer_losses(const ComparedStep& step, std::size_t index);

// "encoder.0.fc" of `Default/network-Net/encoder-Encoder/0-Layer/fc-Linear`; empty for the network itself.
std::string layer_of(std::string_view scope);

}  // namespace sonde
