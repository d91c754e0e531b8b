#include "sonde/step.h"

namespace sonde {

std::string_view word_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "forward";
    case Phase::backward:
      return "backward";
    case Phase::optimizer:
      return "optimizer";
    case Phase::outside:
      return "outside";
    case Phase::recompute:
      return "recompute";
  }
  return "";  // of a damaged dump
}

}  // namespace sonde
