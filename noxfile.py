#!/usr/bin/env -S uv run --script
# /// script
# dependencies = ["nox"]
# ///
"""The targets of the Makefile as nox sessions. Each target keeps its own environment, so nox makes none."""

import nox

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "none"


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, format and types."""
    session.run("make", "lint", "types", external=True)


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests, without the slow ones."""
    session.run("make", "test", external=True)


@nox.session
def torch(session: nox.Session) -> None:
    """Run the tests that need PyTorch."""
    session.run("make", "torch", "test-torch", external=True)


@nox.session
def docs(session: nox.Session) -> None:
    """Build the site, strictly."""
    session.run("make", "docs", external=True)


@nox.session
def rocq(session: nox.Session) -> None:
    """Compile the theories in Rocq and check the examples; needs coqc and CoqInterval."""
    session.run("make", "rocq", external=True)


@nox.session(default=False)
def tests_all(session: nox.Session) -> None:
    """Run all tests."""
    session.run("make", "test-all", external=True)


@nox.session(default=False)
def build(session: nox.Session) -> None:
    """Build sdist and wheel, and try them elsewhere."""
    session.run("make", "release-check", external=True)


if __name__ == "__main__":
    nox.main()
