// sonde._core's part of sonde/findings.h: answers as (JSON, page of text), which python/sonde/analyses.py turns into
// objects.
#include "analyses.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "contract/names.h"
#include "contract/question_fields.h"
#include "raise.h"
#include "sonde/findings.h"
#include "text_caster.h"

namespace nb = nanobind;

namespace {

using sonde::ComparedDumps;
using sonde::Dump;
using Answer = std::pair<std::string, std::string>;  // JSON, text

// Analyses need no Python: other threads may run meanwhile.
template <typename Work>
auto done(const Work& work) {
  auto result = [&] {
    const nb::gil_scoped_release release;
    return work();
  }();
  if (!result) raise(result.error());
  return *std::move(result);
}

// The question with the given arguments; the others have their defaults.
template <typename Question>
Question question_of(const nb::dict& arguments) {
  Question question;
  sonde::for_each_option(question, [&](const char* name, auto& value) {
    if (!arguments.contains(name)) return;
    if (!nb::try_cast(arguments[name], value)) {
      throw nb::type_error((std::string(name) + ": found " + nb::repr(arguments[name]).c_str()).c_str());
    }
  });
  return question;
}

template <typename Report>
Answer answer_of(const Report& report) {
  return {sonde::json_text_of(report), sonde::text_of(report)};
}

Answer first_bad(const Dump& dump, const nb::dict& arguments) {
  const auto question = question_of<sonde::FirstBadQuestion>(arguments);
  return answer_of(done([&] { return sonde::first_bad(dump, question); }));
}

Answer headroom(const Dump& dump, const nb::dict& arguments) {
  const auto question = question_of<sonde::HeadroomQuestion>(arguments);
  return answer_of(done([&] { return sonde::headroom(dump, question); }));
}

Answer first_bad_of_parts(const std::string& dump, const std::string& parts, const nb::dict& arguments) {
  const auto question = question_of<sonde::FirstBadQuestion>(arguments);
  return answer_of(done([&] { return sonde::first_bad_of_parts(dump, parts, question); }));
}

Answer stomp(const Dump& dump, const nb::dict& arguments) {
  const auto part = question_of<sonde::Part>(arguments);
  return answer_of(done([&] { return sonde::stomp(dump, part); }));
}

ComparedDumps compare(const Dump& target, const Dump& golden, const nb::dict& arguments) {
  const auto question = question_of<sonde::CompareQuestion>(arguments);
  return done([&] { return sonde::compare(target, golden, question); });
}

std::string watch(const Dump& dump, const nb::dict& arguments) {
  const auto question = question_of<sonde::WatchQuestion>(arguments);
  return sonde::json_text_of(done([&] { return sonde::watch(dump, question); }));
}

std::string convert(const std::vector<std::string>& paths, const std::string& out_directory,
                    const nb::dict& arguments) {
  const auto question = question_of<sonde::ConvertQuestion>(arguments);
  const std::vector<std::filesystem::path> from(paths.begin(), paths.end());
  return sonde::json_text_of(done([&] { return sonde::convert(from, out_directory, question); }));
}

}  // namespace

void add_analyses(nb::module_& module) {
  nb::class_<ComparedDumps>(module, "Comparison")
      .def(
          "json", [](const ComparedDumps& compared) { return sonde::json_text_of(compared.answer()); },
          nb::call_guard<nb::gil_scoped_release>())
      .def("text", &ComparedDumps::text, nb::arg("all"), nb::call_guard<nb::gil_scoped_release>())
      .def("csv", &ComparedDumps::csv, nb::call_guard<nb::gil_scoped_release>())
      .def("junit", &ComparedDumps::junit, nb::call_guard<nb::gil_scoped_release>())
      .def(sonde::names::left_out, &ComparedDumps::left_out);
  module.def("first_bad", &first_bad, nb::arg("dump"), nb::arg("question"));
  module.def("first_bad_of_parts", &first_bad_of_parts, nb::arg("dump"), nb::arg("parts"), nb::arg("question"));
  module.def("stomp", &stomp, nb::arg("dump"), nb::arg("question"));
  module.def("headroom", &headroom, nb::arg("dump"), nb::arg("question"));
  module.def("compare", &compare, nb::arg("target"), nb::arg("golden"), nb::arg("question"));
  module.def("watch", &watch, nb::arg("dump"), nb::arg("question"));
  module.def("convert", &convert, nb::arg("paths"), nb::arg("out"), nb::arg("question"));
}
