"""python alexnet.py [STEPS]: a narrow AlexNet with dropout, compiled, trained with momentum."""

import sys

import networks

networks.graph_mode()
networks.train(networks.AlexNet, int(sys.argv[1]) if len(sys.argv) > 1 else 2)
