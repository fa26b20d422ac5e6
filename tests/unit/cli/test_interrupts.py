"""Ctrl-C is taken when it is asked for, and never lost."""

import os
import signal

import pytest

from ottla.cli.interrupts import noted_interrupts


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_an_interrupt_waits_until_it_is_asked_for() -> None:
    with noted_interrupts() as check:
        check()
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            check()


def test_the_second_does_not_wait() -> None:
    with noted_interrupts():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()


def test_afterwards_everything_is_as_before() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), noted_interrupts() as check:
        press_ctrl_c()
        check()
    assert signal.getsignal(signal.SIGINT) is before
