"""Graphs in the forms of CANN's graph engine (GE): its protobuf text, TensorFlow's and ONNX's for viewers, and its
readable one."""
