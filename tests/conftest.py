"""A severe setting: float64 on, no silent broadcasting between ranks; warnings are errors (pyproject)."""

import jax
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")


# Five seconds or more each, of a kind that a quicker test covers too: `make test-all` runs them.
SLOW = {
    "certificates/test_published_numbers.py::test_residuals_that_can_be_certified_after_training[1]",
    "cli/test_check_command.py::test_a_sweep",
    "cli/test_gram_command.py::test_every_other_network[conv-residual-arguments2]",
    "cli/test_kill.py::test_kill_9_and_resume[gd]",
    "cli/test_prove_command.py::test_too_few_parameters_are_not_proved",
    "kernels/test_gram.py::test_between_two_sets[elman-rnn]",
    "kernels/test_gram.py::test_gram_is_the_jacobian_product_for_every_weight[deep-rnn]",
    "kernels/test_gram.py::test_products_without_the_matrix[deep-rnn]",
    "kernels/test_host.py::test_the_same_matrix_as_by_xla[conv-residual-outputs]",
    "kernels/test_limits.py::test_convolution_reduces_to_the_residual_network",
    "kernels/test_limits.py::test_covariance_of_the_outputs[residual]",
    "kernels/test_limits.py::test_mean_of_finite_networks[conv-residual]",
    "kernels/test_limits.py::test_mean_of_finite_networks[deep-rnn]",
    "kernels/test_limits.py::test_mean_of_finite_networks[elman-rnn]",
    "kernels/test_limits.py::test_tiles_and_two_sets_change_nothing[elman-rnn]",
    "kernels/test_tables.py::test_random_points[tanh-0.1-1.5]",
    "monitors/test_basics.py::test_trace_gives_values_and_gradients[conv-residual]",
    "monitors/test_smooth.py::test_blocks_are_products_of_jacobians[conv-residual]",
    "monitors/test_smooth.py::test_measures_inside_the_loop[conv-residual]",
    "networks/test_forward_and_gradient.py::test_one_pixel_convolution_is_the_residual_network",
    "papers/test_statements.py::test_statement_comes_out_as_expected[allenzhu2018.theorem_2]",
    "papers/test_statements.py::test_statement_comes_out_as_expected[allenzhu2018.theorem_informal]",
    "papers/test_statements.py::test_statement_comes_out_as_expected[zou2018.theorem_4_5]",
    "papers/test_statements.py::test_statement_comes_out_as_expected[zou2018.theorem_5_3]",
    "src/wideproof/doctor.py::wideproof.doctor.examine",
    "test_docs.py::test_code_of_a_page_runs[one-page]",
    "test_examples.py::test_example_runs[02_train_du_2019]",
    "test_examples.py::test_example_runs[04_rnn_allen_zhu_2018]",
    "test_examples.py::test_example_runs[05_frei_2019_residual]",
    "test_processes.py::test_processes_on_loopback_give_the_matrix_of_one[infinite-2]",
    "training/test_train.py::TestMinibatches::test_the_batch_gradient_is_unbiased_by_enumeration[squared-mean]",
    "training/test_train.py::test_every_network_descends[conv-residual-outputs]",
    "verify/test_bounds.py::test_above_exact_hessians[conv-residual-outputs]",
    "verify/test_bounds.py::test_halved_norms_of_products_are_caught[deep-relu]",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the slow ones by name."""
    for item in items:
        if item.nodeid.partition("@")[0].removeprefix("tests/") in SLOW:
            item.add_marker(pytest.mark.slow)


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20190512)
