"""BLAS held to one thread, by several at a time."""

import threading

from threadpoolctl import threadpool_info

from wideproof.threads import one_blas_thread


def blas_threads():
    return {one["num_threads"] for one in threadpool_info() if one["user_api"] == "blas"}


def test_the_last_one_puts_the_number_back():
    before = blas_threads()
    inside, leave = threading.Event(), threading.Event()

    def other():
        with one_blas_thread():
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    with one_blas_thread():
        thread.start()
        inside.wait()
        assert blas_threads() == {1}
    assert blas_threads() == {1}  # the other one is still at work
    leave.set()
    thread.join()
    assert blas_threads() == before
