"""Gram matrices of networks, finite and infinite, and of any function; spectra, and the descent they predict."""

from wideproof.kernels import cholesky as cholesky
from wideproof.kernels.closed import closed_gram as closed_gram
from wideproof.kernels.closed import has_closed_gram as has_closed_gram
from wideproof.kernels.comparison import compare as compare
from wideproof.kernels.dynamics import Prediction as Prediction
from wideproof.kernels.dynamics import predict as predict
from wideproof.kernels.functions import gram as gram
from wideproof.kernels.gram_result import Gram as Gram
from wideproof.kernels.limits import Pairs as Pairs
from wideproof.kernels.limits import limit_gram as limit_gram
from wideproof.kernels.limits import limit_pairs as limit_pairs
from wideproof.kernels.limits import nngp as nngp
from wideproof.kernels.products import gram_vector as gram_vector
from wideproof.kernels.products import largest_eigenvalue as largest_eigenvalue
from wideproof.kernels.spectrum import LARGE as LARGE
from wideproof.kernels.spectrum import Enclosed as Enclosed
from wideproof.kernels.spectrum import Spectrum as Spectrum
from wideproof.kernels.spectrum import spectrum as spectrum
from wideproof.kernels.stochastic import sgd as sgd
from wideproof.kernels.streamed import Columns as Columns
from wideproof.kernels.streamed import Streamed as Streamed
from wideproof.kernels.streamed import product_between as product_between
from wideproof.kernels.streamed import stream as stream
