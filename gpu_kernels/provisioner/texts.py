"""What an attachment says of itself, to a student who reads it under a cell or in the status bar (pure)."""

from __future__ import annotations

from gpu_kernels.client import Lease
from gpu_kernels.client.lease_holder import NotGranted
from gpu_kernels.durations import duration
from gpu_kernels.endings import why_ended

ASK_AGAIN = "The next CUDA call asks for it again and waits; %gpu wait does so now."
WITHOUT_GPU = "or choose 'Python 3' to work without a GPU."
GONE = "Everything in GPU memory is lost; your variables and files stay."
NOT_ASKED = "No slice of a GPU has been asked for yet."
NOTHING_TO_GIVE_BACK = (
    f"There is no slice to give back: this kernel has none and waits for none.\n{ASK_AGAIN}"
)
FAULT = (
    "Asking for a slice failed through a fault of this installation; the server's log has the details.\n"
    "Try %gpu wait in a minute, or tell the administrator of this installation."
)


KEEPS_SIZE = "This kernel keeps its size: it runs to be graded."


def attached(lease: Lease) -> str:
    """``0.02 V100, charged to ml101.``"""
    until = ""
    if lease.preempt_in is not None:
        until = f" {makes_way(lease.preempt_in)}"
    return f"{lease.size}, charged to {lease.course}.{until}"


def makes_way(seconds: float) -> str:
    return (
        f"It makes way for a class in {duration(seconds)}: save what you need of the GPU's memory before; "
        "variables and files stay."
    )


def not_granted(error: NotGranted) -> str:
    lease = error.lease
    if error.taken_back:
        return (
            f"The slice of {lease.size} ended before the kernel could use it "
            f"({why_ended(lease.state, lease.reason)}).\n"
            f"Nothing is reserved now. Start the kernel again, {WITHOUT_GPU}"
        )
    return (
        f"{error.in_vain}"
        f"Nothing is reserved. Try again in some minutes, choose a smaller slice,\n{WITHOUT_GPU}"
    )


def no_answer(size: str, seconds: float) -> str:
    return (
        f"The GPU pool did not say within {seconds:g} seconds whether there is a slice of {size}.\n"
        f"Nothing is reserved. Try again in a minute, {WITHOUT_GPU}"
    )


def waiting(size: str, position: int | None, starts_in: float | None, why: str, trouble: str | None) -> str:
    """One line: for what, the place, when, and why. ``why`` is the controller's text, which has all that."""
    if trouble is not None:
        return f"Waiting for {size}: {trouble} It is asked again until it answers."
    if position is None:
        return f"Asking for {size}."
    if why:
        return " ".join(why.split())
    when = "" if starts_in is None else f", granted in about {duration(starts_in)}"
    return f"Waiting for {size}: number {position} in the line{when}."


def given_back(size: str, *, held: bool) -> str:
    if not held:
        return f"{size} is no longer waited for: this kernel has left the line, and has no GPU.\n{ASK_AGAIN}"
    return f"The slice of {size} was given back; it costs nothing from now on.\n{GONE}\n{ASK_AGAIN}"


def lost(size: str, reason: str) -> str:
    why = f" {reason[0].upper()}{reason[1:].rstrip('.')}." if reason else ""
    return f"This kernel has lost its slice of {size}.{why}"


def taken_back(loss: str) -> str:
    return f"{loss}\n{GONE}\n{ASK_AGAIN}"


def declined(refusal: str, kept: str | None, own: str) -> str:
    """Another size was refused, and what there was stays."""
    if kept is None:
        return f"{refusal}\nThe next CUDA call, or %gpu wait, asks for {own}."
    return f"{refusal}\nYou still have {kept}."


def declined_in_line(refusal: str, waits_for: str) -> str:
    """Another size was refused to who waits."""
    return f"{refusal}\nYou still wait for {waits_for}, and your place in the line stays."


def no_longer_wanted(size: str, kept: str | None) -> str:
    now = f"You still have {kept}." if kept else ASK_AGAIN
    return f"{size} is no longer waited for: a later request to this kernel replaced it.\n{now}"
