"""LeNet-5 with names of classes left out of the scopes."""

import networks

networks.graph_mode(reserve_class_name_in_scope=False)
networks.train(networks.LeNet5, 2)
