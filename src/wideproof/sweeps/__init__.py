"""Sweeps: many runs over a grid, described by a study file, finished once each, on one process or on a cluster."""

from wideproof.sweeps import store as store
from wideproof.sweeps.analysis import Exponent as Exponent
from wideproof.sweeps.analysis import Threshold as Threshold
from wideproof.sweeps.analysis import curves_of as curves_of
from wideproof.sweeps.analysis import exponents as exponents
from wideproof.sweeps.analysis import fitted as fitted
from wideproof.sweeps.analysis import fraction as fraction
from wideproof.sweeps.analysis import label as label
from wideproof.sweeps.analysis import summary as summary
from wideproof.sweeps.analysis import thresholds as thresholds
from wideproof.sweeps.slurm import Job as Job
from wideproof.sweeps.slurm import array_job as array_job
from wideproof.sweeps.slurm import command_array as command_array
from wideproof.sweeps.slurm import submit as submit
from wideproof.sweeps.slurm import under_way as under_way
from wideproof.sweeps.study import Figure as Figure
from wideproof.sweeps.study import Study as Study
from wideproof.sweeps.study import bundled as bundled
from wideproof.sweeps.study import read_study as read_study
from wideproof.sweeps.sweep import Sweep as Sweep
from wideproof.sweeps.sweep import sweep as sweep
from wideproof.sweeps.sweep import sweep_part as sweep_part
from wideproof.sweeps.task import execute as execute
from wideproof.sweeps.task import first_task as first_task
