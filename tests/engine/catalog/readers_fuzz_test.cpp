// Runs the fuzz entries of the readers over good files with random damage (always the same), and cut off at every byte.
#include <gtest/gtest.h>

#include <string>

#include "broken_text.h"
#include "dump_files.h"
#include "formats/torch_bytes.h"

extern "C" sonde::FuzzEntry fuzz_torch, fuzz_npy, fuzz_msprobe, fuzz_tables;

namespace sonde {
namespace {

TEST(ReadersFuzz, TorchFilesAndPickles) {
  const std::string tensor = pickled_tensor("0", "FloatStorage", 2, 0, {2}, {1});
  const std::string object = "}(" + pickled_text("a") + tensor + "u";
  survive(fuzz_torch, {torch_file(object, {{"0", bytes_of({1, 2})}}), pickle_of(object)});
}

TEST(ReadersFuzz, Npy) {
  survive(fuzz_npy, {npy("<f4", "(2, 3)", bytes_of({1, 2, 3, 4, 5, 6})), npy(">c8", "(1,)", bytes_of({1, 2}), "True"),
                     npy("<E2", "()", "ab")});
}

TEST(ReadersFuzz, Msprobe) {
  survive(fuzz_msprobe,
          {R"({"task": "tensor", "level": "mix", "data": {"Functional.conv2d.0.forward": {"input_args": [
               {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "Max": NaN, "Min": -Infinity,
                "Mean": "nan", "Norm": 1e400, "data_name": "a.pt", "md5": "0a"}, [{"type": "int", "value": 1}, null]],
               "input_kwargs": {"x": {"type": "slice", "value": [1, null, 2]}}, "output": []},
               "Module.a.Conv2d.parameters_grad.0": {"weight": [{"type": "t", "dtype": "f", "shape": []}]}}})",
           R"({"0": [["a", "b"], ["File a.py, line 3, in f, \n x = 1"]]})", R"({"a": null, "b": "c", "d": ["e", 1]})"});
}

TEST(ReadersFuzz, Tables) {
  survive(
      fuzz_tables,
      {"Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value,Min Value,L2Norm "
       "Value\n"
       "Add,Default/Add-op0,0,0,1,input,0,4,float32,\"(1,2)\",inf,-nan,1e-3,\n",
       "Input/Output,Index,Data Size,Data Type,Format,Shape,Count,Max Value,l2norm\nOutput,0,4,DT_FLOAT,ND,2x3,NA\n",
       "123.npy,Add.Default_Add-op0.0.0.1700000000000001.output.0.DefaultFormat.npy\n9,Add.a.1.2.1700000000000001\n",
       "$Version=1.0\n$Object.Count=1\nformat=2\ndtype=0\ndims=2,3\n$End=1\nxxxx"});
}

}  // namespace
}  // namespace sonde
