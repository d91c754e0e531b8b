"""LeNet in a MindSpore in which Sonde does not find one of the functions that it replaces."""

import os

import sonde.mindspore

if "SONDE_OFF" not in os.environ:
    sonde.mindspore.load()
    placed = sonde.mindspore._shim

    class Lacking:
        """The library that is placed in MindSpore, of which nothing but the answer of its search is changed."""

        def sonde_mindspore_missing(self):
            return b"_ZN9mindspore14DumpJsonParser8NeedDumpERKSs"

        def __getattr__(self, name):
            return getattr(placed, name)

    sonde.mindspore._shim = Lacking()

import networks

networks.graph_mode()
networks.train(networks.LeNet5, 1)
