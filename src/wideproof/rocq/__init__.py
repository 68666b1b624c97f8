"""Certificates as theorems that the kernel of Rocq (Coq) checks: Theorem 1, and a checker that is proved sound."""

from wideproof.rocq.covered import NotCoveredError as NotCoveredError
from wideproof.rocq.covered import Subject as Subject
from wideproof.rocq.exporting import Export as Export
from wideproof.rocq.exporting import export as export
from wideproof.rocq.kernel import Checked as Checked
from wideproof.rocq.kernel import check as check
from wideproof.rocq.kernel import find_rocq as find_rocq
from wideproof.rocq.numbers import FailsError as FailsError
