// MindSpore's own functions behind the replaced ones, found by their symbols.
#pragma once

namespace sonde_mindspore {

// Searches MindSpore's loaded libraries and never loads one. Null: none contains it.
void* find_in_mindspore(const char* symbol);

template <typename Function>
Function* original(const char* symbol) {
  return reinterpret_cast<Function*>(find_in_mindspore(symbol));
}

}  // namespace sonde_mindspore
