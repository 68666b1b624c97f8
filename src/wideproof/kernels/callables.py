"""What `gram` is given for a function: parameters, examples and the function itself, checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from wideproof.errors import InputError
from wideproof.kernels.finite import require_finite
from wideproof.kernels.tiles import examples
from wideproof.networks import Network


def as_network(function: object) -> Network | None:
    """Return the network that is meant by itself or by its own call."""
    owner = getattr(function, "__self__", None) if getattr(function, "__name__", "") == "__call__" else function
    return owner if isinstance(owner, Network) else None


def as_function(function: object) -> Callable:
    """Return the function in a form that a compiled program can be kept for."""
    if not callable(function):
        raise InputError(f"gram takes a network or a function of parameters and examples, got {function!r:.60}")
    try:
        hash(function)
    except TypeError:  # compiled anew each time
        return lambda params, x: function(params, x)
    return function


def as_state(params: PyTree, dtype: np.dtype) -> tuple[PyTree[Array], dict[int, str]]:
    """Return the parameters as JAX arrays, and the paths of the floating-point leaves by place."""
    found, tree = jax.tree_util.tree_flatten_with_path(params)
    leaves, paths = [], {}
    for k, (path, leaf) in enumerate(found):
        name = jax.tree_util.keystr(path, simple=True, separator="/") or "params"
        array = leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)
        kind = getattr(array.dtype, "kind", "key")  # of a random key it has none
        if kind in "OUSc":
            what = "complex" if kind == "c" else f"a {type(leaf).__name__}"
            raise InputError(f"the leaf {name} of the parameters is {what}: they are real arrays, keep others outside")
        floats = jnp.issubdtype(array.dtype, jnp.floating)
        if floats and array.size:
            paths[k] = name
        leaves.append(jnp.asarray(array, dtype) if floats else jnp.asarray(array))
    if not paths:
        raise InputError(
            f"the parameters have no floating-point leaf among {len(found)}: there is nothing to differentiate by"
        )
    return tree.unflatten(leaves), paths


def choose(paths: dict[int, str], names: Sequence[str] | None, separator: str = "/") -> tuple[int, ...]:
    """Return the places of the leaves that a path, a path above or a pattern names.

    >>> choose({0: "a/bias", 1: "a/kernel", 3: "b/kernel"}, ["a"]), choose({0: "a/bias", 1: "a/kernel"}, ["*/kernel"])
    ((0, 1), (1,))
    """
    if names is None:
        return tuple(paths)
    names = (names,) if isinstance(names, str) else names

    def fits(path: str, name: str) -> bool:
        return path.startswith(f"{name}{separator}") or path == name or fnmatchcase(path, name)

    unknown = [name for name in names if not any(fits(path, name) for path in paths.values())]
    if unknown or not names:
        raise InputError(
            f"the parameters have the leaves {', '.join(paths.values())}; got {', '.join(unknown) or 'none'}"
        )
    return tuple(k for k, path in paths.items() if any(fits(path, name) for name in names))


def as_side(x: PyTree, dtype: np.dtype) -> PyTree[Array]:
    """Return examples as JAX arrays, floating-point ones in `dtype`."""
    side = jax.tree.map(np.asarray, np.asarray(x) if isinstance(x, list) else x)
    counts = {leaf.shape[:1] for leaf in jax.tree.leaves(side)}
    if len(counts) != 1 or counts == {()} or counts == {(0,)}:
        shapes = ", ".join(str(leaf.shape) for leaf in jax.tree.leaves(side))
        raise InputError(f"the first axis of x counts the examples, at least one; got shapes {shapes or 'of no array'}")

    def cast(leaf: np.ndarray) -> Array:
        return (
            require_finite(jnp.asarray(leaf, dtype)) if jnp.issubdtype(leaf.dtype, jnp.floating) else jnp.asarray(leaf)
        )

    return jax.tree.map(cast, side)


def count_outputs(
    function: Callable[..., Array], batched: bool, state: PyTree[Array], x: PyTree[Array], dtype: np.dtype
) -> int:
    """Check what the function returns for all examples and for one, and return its number of outputs."""
    n = examples(x)
    size = 0
    for count in (n, 1) if batched else (None,):
        cut = (lambda shape: shape[1:]) if count is None else (lambda shape, count=count: (count, *shape[1:]))
        batch = jax.tree.map(lambda leaf, cut=cut: jax.ShapeDtypeStruct(cut(leaf.shape), leaf.dtype), x)
        called = f"x of {', '.join(f'shape {leaf.shape} {leaf.dtype}' for leaf in jax.tree.leaves(batch))}"
        try:
            found = jax.eval_shape(function, state, batch)
        except Exception as error:
            first = (str(error).strip() or "no message").splitlines()[0]
            weights = ", ".join(f"{leaf.shape}" for leaf in jax.tree.leaves(state)[:8])
            raise InputError(
                f"the function is not one of JAX arrays, or not of these: called with parameters {weights} and "
                f"{called} it raised {type(error).__name__}: {first}"
            ) from error
        if not hasattr(found, "shape"):
            raise InputError(f"the function must return one array, got {jax.tree.structure(found)} for {called}")
        if found.dtype != dtype:
            raise InputError(
                f"in {dtype} the function returns {found.dtype}, so it rounds inside: let it compute in the dtype of "
                "its parameters" + (", or use precision='float32'" if found.dtype == np.float32 else "")
            )
        if count is not None and found.shape[:1] != (count,):
            raise InputError(
                f"the function returns shape {found.shape} for {called}: it must return {count} rows, one for each "
                "example; if it takes one example at a time, give batched=False"
            )
        size = int(np.prod(found.shape[0 if count is None else 1 :], dtype=int))
    if not size:
        raise InputError("the function has no outputs: return at least one number for each example")
    return size
