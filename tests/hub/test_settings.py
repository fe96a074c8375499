import socket
import stat

import pytest

from gpu_kernels.hub_config.lab import accounts
from gpu_kernels.hub_config.lab.settings import Settings, SettingsError


def test_settings_survive_the_file_that_the_hub_reads(tmp_path):
    settings = Settings.on_free_ports(tmp_path / "state", lease_ttl=5)
    settings.make_folders()
    assert Settings.load(settings.save()) == settings


def test_free_ports_are_six_different_ones(tmp_path):
    assert len(set(Settings.on_free_ports(tmp_path).ports().values())) == 6


@pytest.mark.parametrize("address", ["0.0.0.0", "192.0.2.7", "::", "", "example.org"])
def test_demo_logins_are_refused_on_addresses_that_others_reach(tmp_path, address):
    with pytest.raises(SettingsError, match="does not listen on"):
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
