// Errors of single elements as NumPy computes them: in the common type of the two arrays, which may wrap or round.
#pragma once

#include <cstdint>

#include "guests/msaccucmp/dump_file.h"

namespace sonde::msaccucmp {

struct ElementError {
  double left = 0, right = 0;         // as both are printed
  double absolute = 0, relative = 0;  // |x-y|, |x-y|/|y|
};

class ElementErrors {
 public:
  ElementErrors(const Array& left, const Array& right);

  ElementError at(std::int64_t index) const { return compute_(*this, index); }
  bool are_bools() const { return are_bools_; }

 private:
  template <typename T>
  static ElementError of_integers(const ElementErrors& self, std::int64_t index);
  static ElementError of_half(const ElementErrors& self, std::int64_t index);
  static ElementError of_float(const ElementErrors& self, std::int64_t index);
  static ElementError of_double(const ElementErrors& self, std::int64_t index);

  const Array &left_, &right_;
  bool are_bools_;
  ElementError (*compute_)(const ElementErrors&, std::int64_t);
};

}  // namespace sonde::msaccucmp
