"""python lenet.py [STEPS]: LeNet-5, compiled, trained with momentum."""

import sys

import networks

networks.graph_mode()
networks.train(networks.LeNet5, int(sys.argv[1]) if len(sys.argv) > 1 else 2)
