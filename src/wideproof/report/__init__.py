"""What people see and keep: curves in the terminal, figures and Gram matrices as files."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from wideproof.doors import lazily as _lazily

if _TYPE_CHECKING:
    from wideproof.report import check_words as check_words
    from wideproof.report import proof_sentences as proof_sentences
    from wideproof.report.audit_terminal import audit_view as audit_view
    from wideproof.report.check_pages import errata_markdown as errata_markdown
    from wideproof.report.check_pages import save_findings as save_findings
    from wideproof.report.check_pages import study_markdown as study_markdown
    from wideproof.report.check_terminal import erratum_summary as erratum_summary
    from wideproof.report.check_terminal import erratum_view as erratum_view
    from wideproof.report.check_terminal import findings_view as findings_view
    from wideproof.report.check_terminal import measured_view as measured_view
    from wideproof.report.check_terminal import statements_view as statements_view
    from wideproof.report.doctor_terminal import doctor_view as doctor_view
    from wideproof.report.figures import gram_figure as gram_figure
    from wideproof.report.figures import loss_figure as loss_figure
    from wideproof.report.figures import require_figure_path as require_figure_path
    from wideproof.report.figures import save_figure as save_figure
    from wideproof.report.figures import spectrum_figure as spectrum_figure
    from wideproof.report.gram_file import require_gram_path as require_gram_path
    from wideproof.report.gram_file import save_gram as save_gram
    from wideproof.report.gram_file import save_gram_study as save_gram_study
    from wideproof.report.gram_terminal import gram_summary as gram_summary
    from wideproof.report.gram_terminal import show_gram as show_gram
    from wideproof.report.html import proof_card as proof_card
    from wideproof.report.html import proof_html as proof_html
    from wideproof.report.html import save_report as save_report
    from wideproof.report.html import svg_text as svg_text
    from wideproof.report.listings import data_summary as data_summary
    from wideproof.report.listings import data_view as data_view
    from wideproof.report.listings import losses_summary as losses_summary
    from wideproof.report.listings import losses_view as losses_view
    from wideproof.report.listings import networks_summary as networks_summary
    from wideproof.report.listings import networks_view as networks_view
    from wideproof.report.page_path import require_page_path as require_page_path
    from wideproof.report.predictions import predictions_csv as predictions_csv
    from wideproof.report.proof_terminal import followed_text as followed_text
    from wideproof.report.proof_terminal import proof_text as proof_text
    from wideproof.report.proof_words import paper as paper
    from wideproof.report.run_terminal import run_summary as run_summary
    from wideproof.report.run_terminal import run_text as run_text
    from wideproof.report.starts_page import save_starts_page as save_starts_page
    from wideproof.report.sweep_figures import sweep_figure as sweep_figure
    from wideproof.report.sweep_page import save_sweep_page as save_sweep_page
    from wideproof.report.sweep_terminal import part_summary as part_summary
    from wideproof.report.sweep_terminal import part_text as part_text
    from wideproof.report.sweep_terminal import sweep_summary as sweep_summary
    from wideproof.report.sweep_terminal import sweep_table as sweep_table
    from wideproof.report.sweep_terminal import sweep_text as sweep_text
    from wideproof.report.sweep_terminal import too_many as too_many
    from wideproof.report.terminal import COLOUR as COLOUR
    from wideproof.report.terminal import curve as curve
    from wideproof.report.theorem_figures import theorem_figure as theorem_figure
    from wideproof.report.theorem_terminal import theorem_view as theorem_view

__getattr__, __dir__ = _lazily(  # a list of statements needs no JAX, and a proof no sweep
    __name__,
    {
        "wideproof.report.audit_terminal": "audit_view",
        "wideproof.report.check_pages": "errata_markdown save_findings study_markdown",
        "wideproof.report.check_terminal": "erratum_summary erratum_view findings_view measured_view statements_view",
        "wideproof.report.doctor_terminal": "doctor_view",
        "wideproof.report.figures": ("gram_figure loss_figure require_figure_path save_figure spectrum_figure"),
        "wideproof.report.gram_file": "require_gram_path save_gram save_gram_study",
        "wideproof.report.gram_terminal": "gram_summary show_gram",
        "wideproof.report.html": "proof_card proof_html save_report svg_text",
        "wideproof.report.listings": "data_summary data_view losses_summary losses_view networks_summary networks_view",
        "wideproof.report.page_path": "require_page_path",
        "wideproof.report.predictions": "predictions_csv",
        "wideproof.report.proof_terminal": "followed_text proof_text",
        "wideproof.report.proof_words": "paper",
        "wideproof.report.run_terminal": "run_summary run_text",
        "wideproof.report.starts_page": "save_starts_page",
        "wideproof.report.sweep_figures": "sweep_figure",
        "wideproof.report.sweep_page": "save_sweep_page",
        "wideproof.report.sweep_terminal": "part_summary part_text sweep_summary sweep_table sweep_text too_many",
        "wideproof.report.terminal": "COLOUR curve",
        "wideproof.report.theorem_figures": "theorem_figure",
        "wideproof.report.theorem_terminal": "theorem_view",
    },
    ("check_words", "proof_sentences"),
)
