"""``%gpu wait``, ``release``, ``attach`` and ``%%gpu``: changing the slice through the attach point."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from gpu_kernels import attach, units
from gpu_kernels.errors import InvalidSize
from gpu_kernels.magics.failures import CellFailed, Interrupted, Refused
from gpu_kernels.magics.life import begin_anew, can_begin_anew, has_failed, let_finish
from gpu_kernels.magics.live import Line, Live
from gpu_kernels.magics.report import NO_GPU, Report, look
from gpu_kernels.remoting.environment import LEASE_VARIABLES

GOES_BACK_WITHIN_S = 30.0
AT_ONCE_S = 1.0
"""What takes no longer needs no line to be shown."""
USED_ALREADY = (
    "The cell did not run: this program uses its GPU already, and cannot be moved to another slice.\n"
    "Restart the kernel (menu Kernel, Restart Kernel), and run this cell before others that use the GPU."
)
FIXED = (
    "The slice of this process cannot be given back or changed while it runs: nobody looks after it.\n"
    "It was started by 'jupyter gpu run', or by a Jupyter server of an older version.\n"
    "Start the command again with another --size, or restart the server (File, Hub Control Panel)."
)


def wait(timeout: float | None) -> Report:
    """Until the kernel has a slice. Raises ``Refused`` or ``Interrupted``."""
    at = attach.address()
    if at is None:
        if "GPU_KERNELS_LEASE" in os.environ:
            return look()
        raise Refused("\n".join(NO_GPU))
    before = _asked(at, do="status")
    answer = _follow(at, timeout, do="wait")
    if answer["state"] == "waiting":
        raise Refused(
            f"No slice came within {timeout:g} s. {answer['text']}\n"
            "Your place in the line stays: '%gpu wait' goes on waiting, '%gpu release' leaves it."
        )
    return _changed(before, answer)


def change(size: str, timeout: float | None) -> Report:
    """Another size instead. Raises ``Refused`` or ``Interrupted``, and then there is what there was."""
    at = _address()
    before = _asked(at, do="status")
    wanted = _with_class(size, str(before.get("size") or ""))
    answer = _swapped(at, before, wanted, timeout)
    return _changed(before, answer)


def release() -> Report:
    """Give it back."""
    at = _address()
    before = _asked(at, do="status")
    let_finish()
    answer = _asked(at, do="release")
    _note_in_environment(answer)
    headline, *remarks = str(answer["text"]).splitlines()
    if before["state"] == "attached":
        remarks += begin_anew()
    return Report(headline, remarks=remarks)


def run_with(size: str | None, timeout: float | None, cell: str, shell: Any) -> None:
    """Run ``cell`` on a slice of another size, and go back to what there was, however it ends."""
    at = _address()
    before = _asked(at, do="status")
    wanted = (
        str(before.get("size") or "") if size is None else _with_class(size, str(before.get("size") or ""))
    )
    had = before["state"] == "attached"
    same = had and before.get("size") == wanted
    if not same and not can_begin_anew():
        raise Refused(USED_ALREADY)
    if not same:
        for remark in _begun(before, _swapped(at, before, wanted, timeout)):
            print(remark)
    failed = True
    try:
        failed = not shell.run_cell(cell, store_history=False).success
    finally:
        said = "" if same else _go_back(at, before)
        if said and not failed:
            print(said)
    if failed:
        raise CellFailed(said or f"The kernel still has {wanted}.")


def _go_back(at: str, before: Mapping[str, Any]) -> str:
    """To the slice that there was or was waited for, or to none; what became of it. Where that is refused or
    takes too long, the kernel has the cell's slice still, and the program its life on it.
    """
    during = now = _asked(at, do="status")
    let_finish()
    if before["state"] in ("attached", "waiting"):
        answer = _asked(at, do="attach", size=before["size"], seconds=GOES_BACK_WITHIN_S)
        now = answer if answer["state"] == "attached" else _asked(at, do="status")
    else:
        answer = now = _asked(at, do="release")
    _note_in_environment(now)
    if answer["state"] == "attached" or (now["state"] == "attached" and now["lease"] != during.get("lease")):
        stands = f"The kernel has {now['size']} again."
    elif "wanted" in now:
        stands = f"The kernel still has {now['size']}, until {before['size']} is there. {answer['text']}"
    else:
        stands = str(answer["text"])
    keeps = now["state"] == "attached" and now["lease"] == during.get("lease")
    return "\n".join([stands, *([] if keeps else begin_anew())])


def _swapped(at: str, before: Mapping[str, Any], size: str, timeout: float | None) -> dict[str, Any]:
    """The answer when the kernel has ``size``; else it keeps what it has."""
    let_finish()
    try:
        answer = _follow(at, timeout, do="attach", size=size)
    except Interrupted:
        _stay(at, before)
        raise Interrupted(
            f"Interrupted: {size} is no longer waited for. {_had(before)}\n"
            f"'%gpu attach {size}' asks for it again."
        ) from None
    if answer["state"] == "waiting":
        _stay(at, before)
        raise Refused(
            f"No slice of {size} came within {timeout:g} s. {answer['text']}\n"
            f"It is no longer waited for. {_had(before)}\n"
            "Try again later, choose a smaller size, or leave out --timeout, which waits until it comes."
        )
    return answer


def _stay(at: str, before: Mapping[str, Any]) -> None:
    if before["state"] == "attached":
        _asked(at, do="keep")
    elif before["state"] == "waiting":
        _asked(at, do="attach", size=before["size"], seconds=0)
    else:
        _asked(at, do="release")


def _had(before: Mapping[str, Any]) -> str:
    if before["state"] == "attached":
        return f"You still have {before['size']}."
    if before["state"] == "waiting":
        return f"You wait for {before['size']} again; '%gpu wait' shows your place in the line."
    return "The next CUDA call, or '%gpu wait', asks for a slice again."


def _follow(at: str, timeout: float | None, **request: Any) -> dict[str, Any]:
    """The last answer of a line that is shown while it moves. Raises ``Refused`` for one that says no."""
    if timeout is not None:
        request["seconds"] = timeout
    live = Live()
    answer: dict[str, Any] = {}
    try:
        with closing(attach.converse(at, **request)) as answers:
            for answer in answers:
                if answer["state"] == "waiting" and (answer["position"] or answer["since"] > AT_ONCE_S):
                    live.show(Line(answer["text"], answer["since"], answer["starts_in"]))
    except KeyboardInterrupt:
        raise Interrupted(
            f"Interrupted. {answer.get('text', '')}\n"
            "Your place in the line stays: '%gpu wait' goes on waiting, '%gpu release' leaves it."
        ) from None
    except attach.NoAttachPoint as error:
        raise _gone(error) from None
    if not answer or (answer["state"] == "waiting" and timeout is None):
        raise _gone("The Jupyter server that looks after this kernel's slice hung up.")
    if answer["state"] in ("refused", "released"):
        raise Refused(str(answer["text"]))
    if answer["state"] == "attached":
        live.end(Report(f"Granted: {answer['text']}"))
    return answer


def _changed(before: Mapping[str, Any], answer: Mapping[str, Any]) -> Report:
    """The report on the present slice."""
    remarks = _begun(before, answer)
    report = look()
    report.remarks = remarks + report.remarks
    return report


def _begun(before: Mapping[str, Any], answer: Mapping[str, Any]) -> list[str]:
    """Begin a new life if the slice is another one; what the student must know of it."""
    _note_in_environment(answer)
    if before["state"] != "attached":
        return begin_anew()
    if before.get("lease") == answer.get("lease") and not has_failed():
        return []
    return ["Everything in the old slice's memory is lost; your variables stay.", *begin_anew()]


def _note_in_environment(answer: Mapping[str, Any]) -> None:
    """For what this process starts or loads later and reads the variables alone, such as a monitor."""
    for name in LEASE_VARIABLES:
        os.environ.pop(name, None)
    if answer["state"] == "attached":
        os.environ.update(answer["environment"])


def _address() -> str:
    at = attach.address()
    if at is None:
        raise Refused(FIXED if "GPU_KERNELS_LEASE" in os.environ else "\n".join(NO_GPU))
    return at


def _asked(at: str, **request: Any) -> dict[str, Any]:
    try:
        return attach.ask(at, **request)
    except attach.NoAttachPoint as error:
        raise _gone(error) from None


def _gone(why: object) -> Refused:
    return Refused(f"{why}\nYour notebook runs on. Restart the kernel if that stays so.")


def _with_class(size: str, present: str) -> str:
    """``size``, of the present one's GPU class where it names none. Raises ``InvalidSize``."""
    words = size.split()
    if len(words) == 1:
        try:
            gpu_class = units.parse_size(present).gpu_class
        except InvalidSize:
            gpu_class = None
        size = f"{words[0]} {gpu_class or units.ANY_CLASS}"
    return str(units.parse_size(size))
