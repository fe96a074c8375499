import os
import socket
import stat
from pathlib import Path

import pytest
from traitlets.config import PyFileConfigLoader

from gpu_kernels.hub_config.lab import accounts, services
from gpu_kernels.hub_config.lab.settings import CONFIGURATION, SETTINGS_VARIABLE, Settings, SettingsError
from gpu_kernels.hub_config.lab.supervisor import Lab
from gpu_kernels.remoting.environment import COMMANDS, software_environment


def test_settings_survive_the_file_that_the_hub_reads(tmp_path):
    settings = Settings.on_free_ports(tmp_path / "state", lease_ttl=5)
    settings.make_folders()
    assert Settings.load(settings.save()) == settings


def test_free_ports_are_six_different_ones(tmp_path):
    assert len(set(Settings.on_free_ports(tmp_path).ports().values())) == 6


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.7", "::", "", "example.org", "::1", "localhost"])
def test_demo_logins_are_refused_on_addresses_that_others_reach(tmp_path, address):
    with pytest.raises(SettingsError, match=r"does not listen on[^$]*such as 127\.0\.0\.1"):
        Settings.in_a_row(tmp_path, 8000, address=address)


@pytest.mark.parametrize("port", [-5, 0, 65531, 70000])
def test_a_port_that_is_none_is_refused(tmp_path, port):
    with pytest.raises(SettingsError, match="is not a port"):
        Settings.in_a_row(tmp_path, port)


def test_a_taken_port_is_named_with_its_use_and_the_way_out(tmp_path):
    settings = Settings.on_free_ports(tmp_path)
    with socket.socket() as other:
        other.bind((settings.address, settings.controller_port))
        with pytest.raises(SettingsError) as refusal:
            settings.check_ports_free()
    assert f"{settings.controller_port} (the pool controller)" in str(refusal.value)
    assert f"--port {settings.port + 1000}" in str(refusal.value)
    settings.check_ports_free()


def test_the_port_that_is_suggested_is_one(tmp_path):
    settings = Settings.in_a_row(tmp_path, 65530)
    with socket.socket() as other:
        other.bind((settings.address, settings.port))
        with pytest.raises(SettingsError, match="--port 64530"):
            settings.check_ports_free()


def test_a_folder_of_other_things_is_refused_and_stays_as_it_is(tmp_path):
    folder = tmp_path / "thesis"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    (folder / "chapter.tex").touch()
    with pytest.raises(SettingsError, match="no lab's"):
        Settings.on_free_ports(folder).make_folders()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [path.name for path in folder.iterdir()] == ["chapter.tex"]


def test_a_labs_folder_is_used_again_and_an_empty_one_becomes_a_labs(tmp_path):
    settings = Settings.on_free_ports(tmp_path)
    settings.make_folders()
    settings.make_folders()
    assert settings.homes.is_dir()


def test_the_folder_of_a_hub_that_was_started_by_hand_is_a_labs(tmp_path):
    """Of an older release too, which left no lock there."""
    settings = Settings.on_free_ports(tmp_path)
    settings.hub_database.touch()
    settings.make_folders()
    assert settings.lock.exists()


def test_a_taken_port_leaves_no_folder(tmp_path):
    settings = Settings.on_free_ports(tmp_path / "state")
    with socket.socket() as other:
        other.bind((settings.address, settings.hub_port))
        with pytest.raises(SettingsError, match="the hub"), Lab(settings):
            pass
    assert not settings.state.exists()


@pytest.mark.parametrize("use", [Settings.make_folders, Settings.save])
def test_a_folder_that_cannot_be_one_is_named(use):
    settings = Settings.on_free_ports(Path("/dev/null/x"))
    with pytest.raises(SettingsError, match=r"cannot keep its state in /dev/null/x: Not a directory\."):
        use(settings)


def test_the_labs_gpu_is_a_software_gpu_whatever_this_machine_has(tmp_path, monkeypatch):
    settings = Settings.on_free_ports(tmp_path / "state")
    settings.make_folders()
    monkeypatch.setenv(SETTINGS_VARIABLE, str(settings.save()))
    config = PyFileConfigLoader("agent_config.py", path=str(CONFIGURATION)).load_config()
    assert config.AgentApp.device == "software"


def test_a_lab_started_within_a_slice_has_nothing_of_it(tmp_path, monkeypatch):
    outside = dict(os.environ)
    inside = software_environment(outside, memory_mib=1024)
    changed = {name for name, value in inside.items() if outside.get(name) != value}
    assert {"LD_LIBRARY_PATH", "PYTHONPATH"} <= changed
    for name in changed:
        monkeypatch.setenv(name, inside[name])
    kept = services.environment(Settings.on_free_ports(tmp_path))
    for name in changed - {"PATH"}:
        assert kept.get(name) == outside.get(name)
    assert str(COMMANDS) not in kept["PATH"]


def test_the_state_folder_is_for_its_owner_only(tmp_path):
    settings = Settings.on_free_ports(tmp_path / "state")
    settings.make_folders()
    assert stat.S_IMODE(settings.state.stat().st_mode) == 0o700
    assert stat.S_IMODE(settings.secrets.stat().st_mode) == 0o700


def test_secrets_are_made_once_and_private(tmp_path):
    token = accounts.token(tmp_path, "agent")
    assert accounts.token(tmp_path, "agent") == token
    assert accounts.token(tmp_path, "proxy") != token
    assert len(bytes.fromhex(token)) == 32
    assert stat.S_IMODE(accounts.token_file(tmp_path, "agent").stat().st_mode) == 0o600


def test_every_login_has_its_own_password_and_keeps_it(tmp_path):
    logins = accounts.logins(tmp_path)
    assert len({login.password for login in logins.values()}) == len(logins)
    assert accounts.logins(tmp_path) == logins
    assert stat.S_IMODE((tmp_path / "logins.json").stat().st_mode) == 0o600


def test_two_labs_have_different_passwords(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, two = accounts.logins(tmp_path / "one"), accounts.logins(tmp_path / "two")
    assert all(one[name].password != two[name].password for name in one)
