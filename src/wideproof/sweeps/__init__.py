"""Sweeps: many runs over a grid, described by a study file, finished once each, on one process or on a cluster."""

from wideproof.sweeps.study import Study as Study
from wideproof.sweeps.study import bundled as bundled
from wideproof.sweeps.study import read_study as read_study
from wideproof.sweeps.sweep import Sweep as Sweep
from wideproof.sweeps.sweep import sweep as sweep
