#include "ask/first_bad/flow_kinds.h"

namespace sonde {

std::string_view word_of(End end) {
  switch (end) {
    case End::absorbed:
      return "absorbed";
    case End::unknown:
      return "unknown";
    case End::unread:
      return "unread";
    case End::decides:
      return "decides";
    case End::scaler:
      return "scaler";
    case End::matters:
      return "matters";
  }
  return "";
}

}  // namespace sonde
