"""What people see: curves in the terminal, figures as files."""

from wideproof.report.figures import loss_figure as loss_figure
from wideproof.report.figures import save_figure as save_figure
from wideproof.report.terminal import curve as curve
