// The analyses of sonde/findings.h for python/sonde/analyses.py.
#pragma once

#include <nanobind/nanobind.h>

void add_analyses(nanobind::module_& module);
