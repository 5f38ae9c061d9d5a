from __future__ import annotations

from benchmarks.mutations import check_faults


def test_the_text_of_every_fault_is_in_one_module_and_its_tests_are_there() -> None:
    check_faults()
