"""The measurable quantities of the papers: traces of a pass, norms, activation patterns, sparse suprema."""

from wideproof.monitors import attacks as attacks
from wideproof.monitors import generalization as generalization
from wideproof.monitors import perturbations as perturbations
from wideproof.monitors import recurrent as recurrent
from wideproof.monitors import relu as relu
from wideproof.monitors import residual as residual
from wideproof.monitors import residual_moves as residual_moves
from wideproof.monitors import smooth as smooth
from wideproof.monitors.norms import Distance as Distance
from wideproof.monitors.norms import distances as distances
from wideproof.monitors.norms import operator_norm as operator_norm
from wideproof.monitors.norms import spectral_norm as spectral_norm
from wideproof.monitors.patterns import active as active
from wideproof.monitors.patterns import flips as flips
from wideproof.monitors.patterns import small_values as small_values
from wideproof.monitors.patterns import union_of_flips as union_of_flips
from wideproof.monitors.recorded_pass import Trace as Trace
from wideproof.monitors.recorded_pass import trace as trace
from wideproof.monitors.sparse import SparseForm as SparseForm
from wideproof.monitors.sparse import sparse_form as sparse_form
from wideproof.monitors.sparse import top_norms as top_norms
