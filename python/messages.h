#pragma once

#include <nanobind/nanobind.h>

// Adds sonde._core.message_fields.
void add_messages(nanobind::module_& module);
