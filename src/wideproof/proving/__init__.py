"""The main job: from a table to a proved statement about it."""

from wideproof.proving.following import Followed as Followed
from wideproof.proving.following import follow as follow
from wideproof.proving.losses import LossProof as LossProof
from wideproof.proving.models import as_model as as_model
from wideproof.proving.models import certify as certify
from wideproof.proving.models import certify_model as certify_model
from wideproof.proving.models import coded as coded
from wideproof.proving.predictor import Predictor as Predictor
from wideproof.proving.proof import Proof as Proof
from wideproof.proving.proof import Ratio as Ratio
from wideproof.proving.runs import prove_run as prove_run
from wideproof.proving.stages import prove as prove
from wideproof.proving.starts import OneStart as OneStart
from wideproof.proving.starts import Starts as Starts
from wideproof.proving.starts import begin_starts as begin_starts
from wideproof.proving.starts import prove_part as prove_part
from wideproof.proving.starts import unfinished as unfinished
from wideproof.proving.torch_following import follow_torch as follow_torch
from wideproof.proving.verifying import VerifiedStarts as VerifiedStarts
from wideproof.proving.verifying import is_of_starts as is_of_starts
from wideproof.proving.verifying import verify_starts as verify_starts
