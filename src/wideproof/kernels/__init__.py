"""Gram matrices of the networks and their spectra."""

from wideproof.kernels.finite import gram as gram
from wideproof.kernels.spectrum import largest_eigenvalue as largest_eigenvalue
