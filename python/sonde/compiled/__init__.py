"""Graphs of torch.compile, recorded node by node while their code stays compiled.

nodes.py reads the nodes of a graph; taps.py inserts the operators that hand over their values; forms.py keeps the two
compiled forms of a graph, with and without these; activation.py meets the compiler; calls.py gives a run its names.
"""
