"""The Poisson equation as residuals of a network: weights that balance them, the course predicted, did it converge."""

# %% [markdown]
# # A differential equation
# The Poisson equation $u'' = -\pi^2 \sin \pi x$ on $[0, 1]$ with $u = 0$ at both ends has the solution $\sin \pi x$.
# A network $u$ with 1,000 units is trained on two groups of residuals: the equation at 24 points, and the values at
# the two ends.

# %%
import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import wideproof as wp

rng, width = np.random.default_rng(0), 1000
start = {"w": 2 * rng.normal(size=width), "b": rng.normal(size=width), "a": rng.normal(size=width)}


def u(p, x):
    return jnp.tanh(p["w"] * x + p["b"]) @ p["a"] / width**0.5


def equation(p, x):
    return jax.grad(jax.grad(u, 1), 1)(p, x) + jnp.pi**2 * jnp.sin(jnp.pi * x)


poisson = wp.Residuals(
    {"equation": equation, "ends": u}, {"equation": np.linspace(0, 1, 24), "ends": np.array([0.0, 1.0])}
)

# %% [markdown]
# ## Which group learns faster
# The eigenvalues of a group's own block of the Gram matrix are the rates at which gradient descent on this group alone
# would reduce its residuals. Those of the second derivatives are far larger than those of the ends.

# %%
gram = poisson.gram(start)
print(gram)
print({name: round(value, 2) for name, value in gram.mean_eigenvalues.items()})

# %% [markdown]
# ## Weights that balance them
# `balanced` chooses weights such that the weighted blocks have equal traces. The Gram matrix at the start predicts,
# before any step is taken, how the objective will fall; the runs show how far residuals of this width are from linear.

# %%
problems = {"sum of squares": wp.Residuals(poisson.functions, poisson.points, {"equation": 1.0, "ends": 1.0})}
problems["balanced"] = problems["sum of squares"].balanced(start, of=gram)
steps, grid = 300, np.linspace(0, 1, 101)
figure, axes = plt.subplots(1, 2, figsize=(9, 3.4), sharey=True)
for axis, (name, problem) in zip(axes, problems.items(), strict=True):
    course = problem.predict(start, of=gram)
    run = wp.descend(problem, start, steps)
    away = np.abs(jax.vmap(lambda x, p=run.params: u(p, x))(grid) - np.sin(np.pi * grid)).max()
    print(f"{name}: u is within {away:.1e} of the solution after {steps} steps")
    print(f"  {run.against(course, target_loss=1e-2 * run.loss[0])}")
    for group, losses in run.groups.items():
        line = axis.loglog(run.steps[1:], losses[1:] / run.loss[0], label=group)[0]
        axis.loglog(run.steps[1:], course.losses(run.steps)[group][1:] / run.loss[0], ":", color=line.get_color())
    axis.set_title(f"{name} (dotted: predicted)")
    axis.set_xlabel("step")
axes[0].set_ylabel("part of the objective")
axes[1].legend()
figure.savefig("residuals.svg", bbox_inches="tight")
