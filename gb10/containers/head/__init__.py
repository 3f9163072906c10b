"""The head of a cluster: a registry for one pull, which the nodes reach through ssh."""
