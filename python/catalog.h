// sonde._core.Dump: sonde/dump.h for python/sonde/dump.py.
#pragma once

#include <nanobind/nanobind.h>

void add_catalog(nanobind::module_& module);
