"""python set_dump.py mindspore|sonde: LeNet-5 of which one cell is flagged, by MindSpore's function or by Sonde's."""

import sys

import networks

networks.graph_mode()
network = networks.LeNet5()
if sys.argv[1] == "sonde":
    import sonde

    sonde.set_dump(network.conv2)
else:
    import mindspore

    mindspore.set_dump(network.conv2)
networks.train(networks.LeNet5, 2, network)
