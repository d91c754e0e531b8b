// FailureWatch: notices in the records of a run that a NaN or an infinity reaches the loss, a gradient or a parameter.
//
// A mask of infinities does not count: neither as data, nor as a buffer, nor as the result of an op. These do:
//
//   the loss       NaN or infinity in the one element that an op of forward makes and backward begins with; also in a
//                  later step that does not come to backward
//   a gradient     NaN or infinity in a tensor whose name ends in ".grad"
//   a parameter    NaN in anything that has a name in the model or the optimizer; infinity in what has a gradient, where
//                  an op reads it or the optimizer has written it
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "dump/journal/record.h"

namespace sonde {

// Not synchronised: its owner calls it under a lock.
class FailureWatch {
 public:
  void define(const Site& site);
  void define(const OpName& name);
  // The tensor that was reached, for people: "NaN in the gradient fc.weight, at Default/… (train.py:45)". Empty: nothing.
  std::string look(const Record& record);

 private:
  struct Place {
    Phase phase = Phase::outside;
    std::uint32_t forward_site = 0;
    std::string line;  // "train.py:45"; empty if unknown
  };
  struct Name {
    bool is_data = false, is_gradient = false, has_gradient = false;
    std::string text;
  };
  std::string look_at_op(const Record& record, const Place& place);
  std::string look_at_named(const Record& record, std::uint32_t name, const TensorRecord& tensor) const;
  std::string look_at_updated(const Record& record, const TensorRecord& output) const;
  std::string text(const Record& record, const TensorRecord& tensor, const std::string& what) const;
  const Place& place_of(std::uint32_t site) const;

  std::vector<Place> places_;  // index = id of the site
  std::vector<Name> names_;    // index = id of the name
  std::unordered_map<std::string, std::uint32_t> named_;
  std::unordered_set<std::uint32_t> loss_sites_;
  std::unordered_map<std::uint32_t, std::string> bad_scalars_;  // of the training step: site -> text
  bool backward_runs_ = false;                                  // its root is known
};

}  // namespace sonde
