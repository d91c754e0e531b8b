// SONDE_EXPORT: what libsonde.so shows. All else in it is hidden.
#pragma once

#ifndef SONDE_EXPORT
#define SONDE_EXPORT __attribute__((visibility("default")))
#endif
