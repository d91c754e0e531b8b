// The function table behind sonde_api().
#pragma once

#include "sonde/sonde.h"

namespace sonde {
const struct sonde_api* api_table();
}  // namespace sonde
