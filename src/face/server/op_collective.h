// The group of ranks that a collective is between, for the page of its operator.
#pragma once

#include <optional>

#include "contract/served_answers.h"
#include "face/server/ask.h"

namespace sonde::server {

// Empty: the operator is not a collective.
std::optional<OpCollective> collective_of(Ask& ask, const AskedOp& asked);

}  // namespace sonde::server
