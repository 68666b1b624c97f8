"""What people see and keep: curves in the terminal, figures and Gram matrices as files."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from wideproof.doors import lazily as _lazily
from wideproof.report.check_pages import errata_markdown as errata_markdown
from wideproof.report.check_pages import require_page_path as require_page_path
from wideproof.report.check_pages import save_findings as save_findings
from wideproof.report.check_pages import study_markdown as study_markdown
from wideproof.report.figures import condition_figure as condition_figure
from wideproof.report.figures import loss_figure as loss_figure
from wideproof.report.figures import require_figure_path as require_figure_path
from wideproof.report.figures import save_figure as save_figure
from wideproof.report.figures import spectrum_figure as spectrum_figure
from wideproof.report.gram_file import require_gram_path as require_gram_path
from wideproof.report.gram_file import save_gram as save_gram
from wideproof.report.gram_terminal import gram_summary as gram_summary
from wideproof.report.gram_terminal import show_gram as show_gram
from wideproof.report.html import proof_card as proof_card
from wideproof.report.html import proof_html as proof_html
from wideproof.report.html import save_report as save_report
from wideproof.report.html import svg_text as svg_text
from wideproof.report.plan_terminal import plan_summary as plan_summary
from wideproof.report.plan_terminal import show_plan as show_plan
from wideproof.report.predictions import predictions_csv as predictions_csv
from wideproof.report.proof_terminal import proof_text as proof_text
from wideproof.report.proof_words import paper as paper
from wideproof.report.terminal import COLOUR as COLOUR
from wideproof.report.terminal import curve as curve

if _TYPE_CHECKING:
    from wideproof.report import check_words as check_words
    from wideproof.report import proof_sentences as proof_sentences
    from wideproof.report.sweep_figures import sweep_figure as sweep_figure
    from wideproof.report.sweep_page import save_sweep_page as save_sweep_page

__getattr__, __dir__ = _lazily(  # a proof needs no sweep
    __name__,
    {"wideproof.report.sweep_figures": "sweep_figure", "wideproof.report.sweep_page": "save_sweep_page"},
    ("check_words", "proof_sentences"),
)
