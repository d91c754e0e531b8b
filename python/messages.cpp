// sonde._core.message_fields: the fields of a protocol buffers message. The messages inside it stay bytes.
#include "messages.h"

#include <nanobind/stl/string.h>

#include <protozero/pbf_reader.hpp>

namespace nb = nanobind;

namespace {

nb::object value_of(protozero::pbf_reader& message) {
  switch (message.wire_type()) {
    case protozero::pbf_wire_type::varint:
      return nb::int_(message.get_int64());
    case protozero::pbf_wire_type::fixed64:
      return nb::float_(message.get_double());
    case protozero::pbf_wire_type::fixed32:
      return nb::float_(static_cast<double>(message.get_float()));
    default: {
      const protozero::data_view view = message.get_view();
      return nb::bytes(view.data(), view.size());
    }
  }
}

// (number, value) of each field, in order. Raises ValueError where the bytes are not a complete message.
nb::list message_fields(const nb::bytes& bytes) {
  nb::list fields;
  try {
    protozero::pbf_reader message(bytes.c_str(), bytes.size());
    while (message.next()) {
      const std::uint32_t number = message.tag();
      fields.append(nb::make_tuple(number, value_of(message)));
    }
  } catch (const protozero::exception& error) {
    throw nb::value_error(error.what());
  }
  return fields;
}

}  // namespace

void add_messages(nb::module_& module) { module.def("message_fields", &message_fields, nb::arg("message")); }
