#include "ground/files/write_method.h"

#include <algorithm>

namespace sonde {

WriteMethod::Kind WriteMethod::next(bool keeps_up) {
  if (!supported_) return cached;
  if (keeps_up || cost_[direct] == 0) return direct;
  if (cost_[cached] == 0) return cached;
  const Kind best = cost_[direct] <= cost_[cached] ? direct : cached;
  if (++since_trial_ < wait_) return best;
  since_trial_ = 0;
  return best == direct ? cached : direct;
}

void WriteMethod::took(Kind kind, std::size_t bytes, std::uint64_t nanoseconds) {
  const double cost = std::max(static_cast<double>(nanoseconds) / static_cast<double>(bytes), 1e-6);
  const bool both_known = cost_[direct] != 0 && cost_[cached] != 0;
  const bool trial = both_known && cost_[kind] > cost_[1 - kind];
  cost_[kind] = cost_[kind] == 0 ? cost : cost_[kind] + (cost - cost_[kind]) / 3;
  if (!trial) return;
  const bool lost_again = cost_[kind] > cost_[1 - kind];
  wait_ = lost_again ? std::min(wait_ * 2, kLongestWait) : kFirstWait;
}

}  // namespace sonde
