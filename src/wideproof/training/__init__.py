"""Losses with their constants, gradient descent and SGD as compiled loops, runs that can be resumed."""

from wideproof.doors import lazily as _lazily
from wideproof.training.loop import Status as Status
from wideproof.training.loop import minibatch as minibatch
from wideproof.training.losses import LOGISTIC as LOGISTIC
from wideproof.training.losses import LOSSES as LOSSES
from wideproof.training.losses import MarginLoss as MarginLoss
from wideproof.training.losses import SquaredLoss as SquaredLoss
from wideproof.training.losses import canonical as canonical
from wideproof.training.losses import get_loss as get_loss
from wideproof.training.losses import power_hinge as power_hinge
from wideproof.training.objective import Objective as Objective
from wideproof.training.objective import training_error as training_error
from wideproof.training.recipe import Recipe as Recipe
from wideproof.training.recording import Info as Info
from wideproof.training.recording import Measure as Measure
from wideproof.training.recording import State as State
from wideproof.training.run import Run as Run
from wideproof.training.step_size import step_size_for as step_size_for
from wideproof.training.stepping import Stepper as Stepper
from wideproof.training.train import begin as begin
from wideproof.training.train import extend as extend
from wideproof.training.train import resume as resume
from wideproof.training.train import train as train
from wideproof.training.train import train_many as train_many

__getattr__, __dir__ = _lazily(__name__, {}, former={"Progress": "wideproof.progress.Progress"})
