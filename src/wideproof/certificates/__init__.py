"""Certificates: proofs that gradient descent reaches a global minimum, for one network and one data set."""
