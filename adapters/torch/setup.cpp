#include "setup.h"

namespace sonde_torch {
namespace {

std::atomic<const struct sonde_api*> g_engine{nullptr};
std::atomic<Recording*> g_recording{nullptr};
std::atomic<bool> g_inert{true};
std::atomic<bool> g_awaits_model{false};

}  // namespace

const char* set_engine(const struct sonde_api& table) {
  const char* why_not = sonde_table_mismatch(&table);
  if (why_not == nullptr) g_engine.store(&table, std::memory_order_release);
  return why_not;
}

bool has_engine() { return g_engine.load(std::memory_order_acquire) != nullptr; }
const struct sonde_api& api() { return *g_engine.load(std::memory_order_acquire); }

Recording* recording() { return g_recording.load(std::memory_order_acquire); }
void set_recording(Recording* begun) { g_recording.store(begun, std::memory_order_release); }

bool is_inert() { return g_inert.load(std::memory_order_relaxed); }
bool set_inert(bool inert) { return g_inert.exchange(inert); }

bool awaits_model() { return g_awaits_model.load(std::memory_order_relaxed); }
void set_awaits_model(bool awaits) { g_awaits_model = awaits; }

}  // namespace sonde_torch
