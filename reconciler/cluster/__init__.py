"""A cluster behind one Protocol: Kubernetes, or a stand-in on this machine."""
