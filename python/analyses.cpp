// sonde._core's part of sonde/findings.h: answers as (JSON, page of text), which python/sonde/analyses.py turns into
// objects.
#include "analyses.h"

#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "contract/question_fields.h"
#include "raise.h"
#include "sonde/findings.h"
#include "text_caster.h"

namespace nb = nanobind;

namespace {

using sonde::Comparison;
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

Answer stomp(const Dump& dump, const nb::dict& arguments) {
  const auto part = question_of<sonde::Part>(arguments);
  return answer_of(done([&] { return sonde::stomp(dump, part); }));
}

Comparison compare(const Dump& target, const Dump& golden, const nb::dict& arguments) {
  const auto question = question_of<sonde::CompareQuestion>(arguments);
  return done([&] { return sonde::compare(target, golden, question); });
}

nb::dict dict_of(const sonde::WatchFinding& finding) {
  nb::dict out;
  out["condition"] = nb::cast(finding.condition);
  out["tensor"] = nb::cast(finding.tensor);
  out["rank"] = nb::cast(finding.rank);
  out["graph"] = nb::cast(finding.step.graph);
  out["step"] = nb::cast(finding.step.number);
  out["op_name"] = nb::cast(finding.op);
  out["side"] = nb::str(finding.is_input ? "input" : "output");
  out["slot"] = nb::cast(finding.slot);
  out["detail"] = nb::cast(finding.detail);
  out["previous_step"] = nb::cast(finding.previous_step);
  nb::list parameters;
  for (const sonde::DumpWatchParameter& parameter : finding.parameters) {
    parameters.append(nb::make_tuple(nb::cast(std::string(parameter.name)), parameter.value, nb::cast(parameter.actual),
                                     parameter.hit, nb::cast(parameter.at_least), nb::cast(parameter.at_most)));
  }
  out["parameters"] = parameters;
  return out;
}

template <typename Item, typename Make>
nb::list list_of(const std::vector<Item>& items, const Make& make) {
  nb::list list;
  for (const Item& item : items) list.append(make(item));
  return list;
}

nb::tuple pair_of(const sonde::DumpProblem& problem) {
  return nb::make_tuple(nb::cast(problem.path.string()), nb::cast(problem.message));
}

nb::dict watch(const Dump& dump, const nb::dict& arguments) {
  const auto question = question_of<sonde::WatchQuestion>(arguments);
  const sonde::WatchFindings found = done([&] { return sonde::watch(dump, question); });
  nb::dict out;
  out["hits"] = list_of(found.hits, dict_of);
  out["not_judged"] = list_of(found.not_judged, dict_of);
  out["notes"] = nb::cast(found.notes);
  out["problems"] = list_of(found.problems, pair_of);
  out["complete"] = found.complete;
  return out;
}

nb::dict convert(const std::vector<std::string>& paths, const std::string& out_directory, const nb::dict& arguments) {
  const auto question = question_of<sonde::ConvertQuestion>(arguments);
  const std::vector<std::filesystem::path> from(paths.begin(), paths.end());
  const sonde::ConvertedFiles found = done([&] { return sonde::convert(from, out_directory, question); });
  nb::dict out;
  out["files"] = list_of(found.files, [](const sonde::ConvertedFiles::File& file) {
    return nb::make_tuple(nb::cast(file.from.string()), nb::cast(file.to.string()), file.bytes);
  });
  out["lost"] = list_of(found.lost, pair_of);
  out["notes"] = nb::cast(found.notes);
  return out;
}

}  // namespace

void add_analyses(nb::module_& module) {
  nb::class_<Comparison>(module, "Comparison")
      .def("json", &Comparison::json, nb::call_guard<nb::gil_scoped_release>())
      .def("text", &Comparison::text, nb::arg("all"), nb::call_guard<nb::gil_scoped_release>())
      .def("csv", &Comparison::csv, nb::call_guard<nb::gil_scoped_release>())
      .def("junit", &Comparison::junit, nb::call_guard<nb::gil_scoped_release>())
      .def("left_out", &Comparison::left_out);
  module.def("first_bad", &first_bad, nb::arg("dump"), nb::arg("question"));
  module.def("stomp", &stomp, nb::arg("dump"), nb::arg("question"));
  module.def("compare", &compare, nb::arg("target"), nb::arg("golden"), nb::arg("question"));
  module.def("watch", &watch, nb::arg("dump"), nb::arg("question"));
  module.def("convert", &convert, nb::arg("paths"), nb::arg("out"), nb::arg("question"));
}
