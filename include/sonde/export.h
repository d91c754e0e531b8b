// SONDE_EXPORT marks the symbols that libsonde.so exports. All others are hidden.
#pragma once

#ifndef SONDE_EXPORT
#define SONDE_EXPORT __attribute__((visibility("default")))
#endif
