"""What people see and keep: curves in the terminal, figures and Gram matrices as files."""

from wideproof.report.figures import condition_figure as condition_figure
from wideproof.report.figures import loss_figure as loss_figure
from wideproof.report.figures import save_figure as save_figure
from wideproof.report.figures import spectrum_figure as spectrum_figure
from wideproof.report.gram_file import save_gram as save_gram
from wideproof.report.html import proof_html as proof_html
from wideproof.report.html import save_report as save_report
from wideproof.report.proof_terminal import proof_text as proof_text
from wideproof.report.terminal import curve as curve
