#include "sample.h"

#include <limits>

namespace sonde {
namespace {

TensorRecord input() {
  TensorRecord tensor;
  tensor.is_input = true;
  tensor.slot = 1;
  tensor.dtype = DType::bfloat16;
  tensor.shape = dims({2, 3, 224, 224});
  tensor.content = 7;
  tensor.source = 300;
  tensor.source_slot = 2;
  tensor.parameter = 2;
  tensor.placement = 3;
  tensor.wanted = false;
  return tensor;
}

TensorRecord output() {
  TensorRecord tensor;
  tensor.dtype = DType::float32;
  tensor.shape = dims({});
  tensor.content = ~0ULL;
  tensor.timestamp_us = 1763723013123457;
  tensor.has_statistics = true;
  tensor.statistics = {.count = 301056,
                       .nan_count = 1,
                       .positive_inf_count = 2,
                       .negative_inf_count = 3,
                       .positive_count = 4,
                       .negative_count = 5,
                       .zero_count = 301000,
                       .max = 1.5,
                       .min = -std::numeric_limits<double>::denorm_min(),
                       .sum = -0.0,
                       .sum_squares = 1e300};
  tensor.md5 = "900150983cd24fb0d6963f7d28e17f72";
  tensor.sha1 = "a9993e364706816aba3e25717850c26c9cd0d89d";
  return tensor;
}

TensorRecord skipped() {
  TensorRecord tensor;
  tensor.slot = 1;
  tensor.dtype = DType::complex64;
  tensor.shape = dims({0, 7});
  tensor.skipped = "sparse";
  tensor.constant = -2.5;
  return tensor;
}

}  // namespace

Dims dims(std::vector<std::int64_t> sizes) { return Dims(sizes); }

SampleRun sample_run() {
  SampleRun run;
  Site forward;
  forward.id = 1;
  forward.op_type = "conv2d";
  forward.scope = "network-AlexNet/features/0-Conv2d";
  forward.trace = {{"/home/user/tr\xc3\xa4in.py", "forward", 175, 8, 176, 20}, {"/home/user/main.py", "<module>", 3}};
  Site backward = forward;
  backward.id = 2;
  backward.phase = Phase::backward;
  backward.op_type = "convolution_backward";
  backward.forward_op_type = "conv2d";
  backward.forward_site = 1;
  run.sites = {forward, backward};
  run.op_names = {{1, "conv2d", "Default/network-AlexNet/features/0-Conv2d/conv2d-op0"},
                  {2, "Parameter", "features.0.weight"}};

  run.attributes = {{1,
                     {{"stride", AttributeKind::integers, {1, -1}, {}, ""},
                      {"bias", AttributeKind::none, {}, {}, ""},
                      {"alpha", AttributeKind::real, {}, {0.5}, ""},
                      {"dtype", AttributeKind::text, {}, {}, "Float"},
                      {"ceil_mode", AttributeKind::boolean, {1}, {}, ""}}}};

  Record begin;
  begin.kind = RecordKind::step_begin;
  begin.step = {1, 1ULL << 40};
  begin.timestamp_us = 1763723013000000;
  run.records.push_back(std::move(begin));

  Record op;
  op.sequence = 1;
  op.step = {1, 1ULL << 40};
  op.site = 2;
  op.thread = 65535;
  op.failed = true;
  op.attributes = 1;
  op.call_number = 300;
  op.timestamp_us = 1763723013123456;
  op.tensors.push_back(input());
  op.tensors.push_back(output());
  op.tensors.push_back(skipped());
  run.records.push_back(std::move(op));

  run.note = "complex tensors have no statistics";
  run.files = {{1, false, 0, "Net/1/1099511627776/conv2d.x.output.0.DefaultFormat.Float32.npy"}};
  return run;
}

std::string write(const SampleRun& run, bool finished) {
  JournalWriter writer;
  writer.run(run.header);
  for (const Site& site : run.sites) writer.site(site);
  for (const OpName& name : run.op_names) writer.op_name(name);
  for (const Attributes& attributes : run.attributes) writer.attributes(attributes);
  for (const SampleRun::File& file : run.files) {
    writer.file(file.sequence, file.is_input, file.slot, file.file);
  }
  for (const Record& record : run.records) writer.record(record);
  writer.note(run.note);
  if (finished) writer.end(run.end);
  return writer.buffer();
}

}  // namespace sonde
