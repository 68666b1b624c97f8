"""A study that takes a second, as text."""

TINY = """
name = "tiny"
measures = ["loss", "distance", "reached"]

[data]
source = "sphere"
n = 4
d = 3
separation = 0.3

[network]
name = "fully-connected"
depth = 1

[training]
steps = 20
target_loss = 1e-12

[axes]
width = [4, 8]
seed = 3

[[figures]]
kind = "slope"
quantity = "distance"
x = "width"
"""


def tree(folder):
    """Every file below a folder with its bytes."""
    return {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
