"""``jupyter gpu lab``: what it refuses before it starts anything."""

from __future__ import annotations

import pytest

from gpu_kernels import cli

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ("--memory=0.5 V100", "a software GPU has 1024 MiB or more"),
        ("--memory=1023 MiB", "a software GPU has 1024 MiB or more"),
        ("--memory=much", "much"),
        ("--state=~nosuchuser/lab", "~nosuchuser/lab: there is no user of this name"),
        ("--gpus=0", "a lab has 1 to 16 software GPUs"),
        ("--gpus=17", "a lab has 1 to 16 software GPUs"),
        ("--port=65532", "65536 is not a port"),
        ("--address=0.0.0.0", "does not listen on '0.0.0.0'"),
    ],
)
def test_what_cannot_be_is_refused_by_name_and_leaves_no_folder(option, said, tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["lab", "--no-browser", f"--state={tmp_path / 'state'}", option])
    assert ended.value.code == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "state").exists()
