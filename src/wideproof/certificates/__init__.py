"""Certificates: proofs that gradient descent reaches a global minimum, for one network and one data set."""

from wideproof.certificates.attempt import Attempt as Attempt
from wideproof.certificates.attempt import Obstacle as Obstacle
from wideproof.certificates.basins import certify_basin as certify_basin
from wideproof.certificates.certificate import Certificate as Certificate
from wideproof.certificates.certificate import load_certificate as load_certificate
from wideproof.certificates.certifying import certify as certify
from wideproof.certificates.classify import certify_classifier as certify_classifier
from wideproof.certificates.inertia import certify_momentum as certify_momentum
from wideproof.certificates.nearest import nearest as nearest
from wideproof.certificates.polishing import polish as polish
from wideproof.certificates.polishing import polish_ridge as polish_ridge
from wideproof.certificates.ridge import certify_ridge as certify_ridge
from wideproof.certificates.scales import scale_needed as scale_needed
from wideproof.certificates.starting import certify_from_start as certify_from_start
from wideproof.certificates.starting import certify_run as certify_run
from wideproof.certificates.starting import enter as enter
from wideproof.certificates.stochastic import certify_epochs as certify_epochs
from wideproof.certificates.stochastic import certify_orders as certify_orders
from wideproof.certificates.stochastic import certify_sampling as certify_sampling
from wideproof.certificates.widths import doubled as doubled
from wideproof.certificates.widths import positive as positive
from wideproof.certificates.widths import width_needed as width_needed
