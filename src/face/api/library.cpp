// The exports of libsonde.so, with the life cycle of dump_life.cpp.
#include "record/capture/api.h"
#include "sonde/sonde.h"

extern "C" const struct sonde_api* sonde_api(uint32_t version) {
  return version == SONDE_API_VERSION ? sonde::api_table() : nullptr;
}

extern "C" const char* sonde_api_mismatch(uint32_t version, uint32_t table_size) {
  return sonde::api_table()->mismatch(version, table_size);
}
