"""Texture and surface objects, and what kernels that nvcc has compiled read and write by them."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from ctypes import byref, c_uint, c_uint64
from pathlib import Path

import numpy as np
import pytest

from tests.softgpu.engine.test_textures import directions, expect, filled, pyramid, shape, spread
from tests.softgpu.engine.textures import Request, Texture, element, gathered, sample

from . import objects, raw
from .raw import Cuda

ROOT = Path(__file__).parents[3]
SOURCE = Path(__file__).parent / "programs" / "textures.cu"


@pytest.fixture(scope="session")
def ptx(tmp_path_factory: pytest.TempPathFactory) -> str:
    nvcc = shutil.which("nvcc")
    if not nvcc:
        pytest.skip("nvcc is not here")
    made = tmp_path_factory.mktemp("textures") / "textures.ptx"
    subprocess.run([nvcc, "-ptx", "-arch=compute_75", SOURCE, "-o", made], check=True, capture_output=True)
    return made.read_text()


def fetched(
    cuda: Cuda, ptx: str, name: str, handle: int, requests: list[Request], bytes_each: int = 16
) -> np.ndarray:
    table = np.zeros((len(requests), 5), np.float32)
    for row, request in zip(table, requests, strict=True):
        row[: len(request.at)] = request.at
        row[3:4] = np.array([request.layer], np.int32).view(np.float32)
        row[4] = request.level or 0
    places, out = cuda.alloc(table.nbytes), cuda.alloc(len(requests) * bytes_each)
    cuda.write(places, table.tobytes())
    arguments = (c_uint64(out), c_uint64(handle), c_uint64(places), c_uint(len(requests)))
    assert cuda.launch(cuda.kernel(cuda.load(ptx), name), *arguments, block=(len(requests), 1, 1)) == 0
    return np.frombuffer(cuda.read(out, len(requests) * bytes_each), np.uint32).reshape(len(requests), -1)


def asked(texture: Texture) -> list[Request]:
    return directions(3, 2) if "cube" in texture.kind else spread(texture, 3)


@pytest.mark.parametrize("linear", [False, True], ids=["nearest", "linear"])
@pytest.mark.parametrize("kind", ["1d", "2d", "3d", "a1d", "a2d", "cube", "acube"])
def test_compiled_kernels_read_arrays_of_every_kind(cuda: Cuda, ptx: str, kind: str, linear: bool):
    texture = Texture(
        kind, "f32", [filled(kind, "f32", shape(kind, 6, 5, 3), 4)], "mirror", linear=linear, normalized=True
    )
    requests = asked(texture)
    handle = objects.texture_object(cuda, objects.of_array(cuda, texture), texture)
    got = fetched(cuda, ptx, f"fetch_{kind}", handle, requests)
    expect(texture, got, [sample(texture, r) for r in requests], requests)


def test_compiled_kernels_choose_levels(cuda: Cuda, ptx: str):
    levels = [np.repeat(level, 4, 3) for level in pyramid("2d", 4)]
    texture = Texture(
        "2d",
        "f32",
        levels,
        "wrap",
        linear=True,
        normalized=True,
        between_levels=True,
        bias=0.25,
        greatest=2.5,
    )
    requests = [Request(r.at, 0, i / 8) for i, r in enumerate(directions(4, 1)[:40])]
    requests = [Request(r.at[:2], 0, r.level) for r in requests]
    handle = objects.texture_object(cuda, objects.of_array(cuda, texture), texture)
    got = fetched(cuda, ptx, "level_2d", handle, requests)
    expect(texture, got, [sample(texture, r) for r in requests], requests)
    changes = [Request(r.at, 0, None, (r.level or 0, 0.0), (0.0, r.level or 0)) for r in requests]
    got = fetched(cuda, ptx, "gradient_2d", handle, requests)
    expect(texture, got, [sample(texture, r) for r in changes], changes)


def test_compiled_kernels_gather(cuda: Cuda, ptx: str):
    texture = Texture("2d", "f32", [filled("2d", "f32", (1, 5, 4), 4)], normalized=True)
    requests = [Request(r.at) for r in spread(texture, 5)]
    handle = objects.texture_object(cuda, objects.of_array(cuda, texture, objects.GATHER), texture)
    got = fetched(cuda, ptx, "gather_2d", handle, requests)
    np.testing.assert_array_equal(got, [gathered(texture, r, 1) for r in requests])


def in_memory(cuda: Cuda, texture: Texture) -> int:
    """Rows `pitch` bytes apart, without one behind each other."""
    level = texture.levels[0]
    rows = level.reshape(level.shape[1], -1).view(np.uint8)
    padded = np.zeros((len(rows), texture.pitch or rows.shape[1]), np.uint8)
    padded[:, : rows.shape[1]] = rows
    address = cuda.alloc(padded.nbytes)
    cuda.write(address, padded.tobytes())
    return address


def test_linear_memory_is_fetched_from_by_number(cuda: Cuda, ptx: str):
    texture = Texture("linear", "u8", [filled("linear", "u8", (1, 1, 100), 4)], as_float=True)
    handle = objects.texture_object(cuda, objects.linear(in_memory(cuda, texture), texture), texture)
    requests = [Request((0.0,), i) for i in (-1, 0, 1, 50, 99, 100, 2**31 - 1, -(2**31))]
    got = fetched(cuda, ptx, "fetch_linear", handle, requests)
    want = [element(texture, 0, (0, 0, r.layer)) if 0 <= r.layer < 100 else [0] * 4 for r in requests]
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("linear", [False, True], ids=["nearest", "linear"])
def test_pitched_memory_is_sampled(cuda: Cuda, ptx: str, linear: bool):
    texture = Texture(
        "2d",
        "f32",
        [filled("2d", "f32", (1, 5, 7), 4)],
        "border",
        linear=linear,
        pitch=128,
        border=(1, 2, 3, 4),
    )
    handle = objects.texture_object(cuda, objects.pitched(in_memory(cuda, texture), texture), texture)
    requests = spread(texture, 6)
    got = fetched(cuda, ptx, "fetch_2d", handle, requests)
    expect(texture, got, [sample(texture, r) for r in requests], requests)


def test_integers_come_as_they_are(cuda: Cuda, ptx: str):
    texture = Texture("2d", "u8", [filled("2d", "u8", (1, 3, 4), 4)])
    handle = objects.texture_object(cuda, objects.of_array(cuda, texture), texture)
    requests = [Request((x + 0.5, y + 0.5)) for y in range(3) for x in range(4)]
    got = fetched(cuda, ptx, "fetch_bytes", handle, requests, 4)
    np.testing.assert_array_equal(got.view(np.uint8), texture.levels[0].reshape(12, 4))


@pytest.mark.parametrize("kind", ["2d", "3d", "a2d", "cube"])
def test_compiled_kernels_read_and_write_surfaces(cuda: Cuda, ptx: str, kind: str):
    level = filled(kind, "f32", shape(kind, 4, 4, 3), 4)
    texture = Texture(kind, "f32", [level])
    arrays = [objects.array_of(cuda, texture, objects.SURFACE) for _ in range(2)]
    source, target = (objects.surface_object(cuda, array) for array in arrays)
    block = (level.shape[2], level.shape[1], level.shape[0])
    kernel = cuda.kernel(cuda.load(ptx), f"surface_{kind}")
    assert cuda.launch(kernel, c_uint64(target), c_uint64(source), block=block) == 0
    got = np.zeros_like(level)
    objects.copy(cuda, arrays[1], got, back=True)
    want = level.copy()
    want[..., 0] += np.float32(1)
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("checks", ["", "all"], ids=["plain", "checked"])
def test_checked_kernels_read_and_write_as_others_do(ptx: str, tmp_path: Path, library: Cuda, checks: str):
    text, log = tmp_path / "textures.ptx", tmp_path / "log"
    text.write_text(ptx)
    environment = os.environ | {"GPU_KERNELS_SOFTGPU_LOG": str(log), "GPU_KERNELS_SOFTGPU_CHECK": checks}
    command = [sys.executable, "-m", "tests.softgpu.driver.programs.checked_textures", str(text)]
    done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert (done.stdout, done.stderr) == ("right\n", "")
    assert not log.exists() or not log.read_text()


def test_a_view_shows_some_layers_in_another_format(cuda: Cuda, ptx: str):
    texture = Texture("a2d", "u32", [filled("a2d", "u32", (5, 3, 4), 4)])
    given = objects.of_array(cuda, texture)
    view = objects.View(format=0x18, width=4, height=3, depth=5, first_layer=1, last_layer=3)
    handle = objects.texture_object(cuda, given, texture, view)
    requests = [Request((1.5, 2.5), layer) for layer in (0, 1, 2, 3)]
    got = fetched(cuda, ptx, "fetch_a2d", handle, requests)
    np.testing.assert_array_equal(got, [texture.levels[0][1 + min(i, 2), 2, 1] for i in range(4)])


def test_a_view_shows_some_cubes_of_a_layered_cubemap(cuda: Cuda, ptx: str):
    texture = Texture("acube", "f32", [filled("acube", "f32", (18, 3, 3), 4)], normalized=True)
    given = objects.of_array(cuda, texture)
    view = objects.View(width=3, height=3, depth=18, first_layer=6, last_layer=11)
    handle = objects.texture_object(cuda, given, texture, view)
    seen = Texture("acube", "f32", [texture.levels[0][6:12]], normalized=True)
    requests = [Request(r.at, layer) for r in directions(3, 1)[:20] for layer in (0, 1, 2)]
    got = fetched(cuda, ptx, "fetch_acube", handle, requests)
    expect(seen, got, [sample(seen, r) for r in requests], requests)


def test_a_view_of_a_part_of_a_cubemap_is_refused_by_name(cuda: Cuda, capfd: pytest.CaptureFixture[str]):
    texture = Texture("acube", "f32", [filled("acube", "f32", (18, 3, 3), 4)], normalized=True)
    given = objects.of_array(cuda, texture)
    for first, last in ((0, 0), (1, 6), (6, 12), (3, 8)):
        view = objects.View(width=3, height=3, depth=18, first_layer=first, last_layer=last)
        assert refused(cuda, given, objects.sampling(texture), view) == raw.NOT_SUPPORTED, (first, last)
    assert "a texture object of some of a cubemap's six layers" in capfd.readouterr().err


def test_a_view_shows_some_levels(cuda: Cuda, ptx: str):
    levels = [np.repeat(level, 4, 3) for level in pyramid("2d", 4)]
    texture = Texture("2d", "f32", levels, normalized=True)
    view = objects.View(width=16, height=8, first_level=1, last_level=2)
    handle = objects.texture_object(cuda, objects.of_array(cuda, texture), texture, view)
    requests = [Request((0.3, 0.6), 0, level) for level in (0.0, 1.0, 5.0)]
    got = fetched(cuda, ptx, "level_2d", handle, requests)
    seen = Texture("2d", "f32", levels[1:3], normalized=True)
    expect(seen, got, [sample(seen, r) for r in requests], requests)


def simple(**options: bool) -> Texture:
    return Texture("2d", "f32", [filled("2d", "f32", (1, 4, 4), 1)], **options)


def test_an_object_tells_what_it_was_made_of(cuda: Cuda):
    texture = simple(linear=True, normalized=True)
    given = objects.of_array(cuda, texture)
    view = objects.View(format=0x0D, width=4, height=4)
    plain = objects.texture_object(cuda, given, texture)
    texture.linear = False
    texture.as_float = True
    viewed = objects.texture_object(cuda, given, texture, view)
    got, how, seen = objects.Resource(), objects.Sampling(), objects.View()
    cuda.cuTexObjectGetResourceDesc(byref(got), plain)
    assert objects.raw_bytes(got) == objects.raw_bytes(given)
    cuda.cuTexObjectGetTextureDesc(byref(how), viewed)
    assert objects.raw_bytes(how) == objects.raw_bytes(objects.sampling(texture))
    cuda.cuTexObjectGetResourceViewDesc(byref(seen), viewed)
    assert objects.raw_bytes(seen) == objects.raw_bytes(view)
    assert cuda.code("cuTexObjectGetResourceViewDesc", byref(seen), plain) == raw.INVALID_VALUE


def test_a_surface_object_tells_its_array(cuda: Cuda):
    array = objects.array_of(cuda, simple(), objects.SURFACE)
    handle = objects.surface_object(cuda, array)
    got = objects.Resource()
    cuda.cuSurfObjectGetResourceDesc(byref(got), handle)
    assert (got.type, got.of.array) == (objects.ARRAY, array)


@pytest.mark.parametrize("name", ["cuTexObjectDestroy", "cuSurfObjectDestroy"])
def test_what_is_no_object_is_an_invalid_value(cuda: Cuda, name: str):
    array = objects.array_of(cuda, simple(), objects.SURFACE)
    surface = objects.surface_object(cuda, array)
    texture = objects.texture_object(cuda, objects.resource(objects.ARRAY, array), simple())
    mine, other = (texture, surface) if "Tex" in name else (surface, texture)
    assert cuda.code(name, 0) == raw.INVALID_VALUE
    assert cuda.code(name, other) == raw.INVALID_VALUE
    assert cuda.code(name, mine) == raw.SUCCESS
    assert cuda.code(name, mine) == raw.INVALID_VALUE


def test_kernels_find_a_destroyed_object_no_more(cuda: Cuda, ptx: str, capfd: pytest.CaptureFixture[str]):
    handle = objects.texture_object(cuda, objects.of_array(cuda, simple()), simple())
    cuda.cuTexObjectDestroy(handle)
    with pytest.raises(raw.CudaError) as caught:
        fetched(cuda, ptx, "fetch_2d", handle, [Request((0.5, 0.5))])
    assert caught.value.code == raw.ILLEGAL_ADDRESS
    assert f"tex.2d uses {handle:#x}, which is no texture object" in capfd.readouterr().err


@pytest.mark.parametrize("what", ["array", "memory"])
def test_what_is_freed_under_an_object_is_read_no_more(
    cuda: Cuda, ptx: str, capfd: pytest.CaptureFixture[str], what: str
):
    texture = Texture("2d", "f32", [filled("2d", "f32", (1, 4, 8), 4)], pitch=128)
    if what == "array":
        given = objects.of_array(cuda, texture)
        handle = objects.texture_object(cuda, given, texture)
        cuda.cuArrayDestroy(given.of.array)
    else:
        address = in_memory(cuda, texture)
        handle = objects.texture_object(cuda, objects.pitched(address, texture), texture)
        cuda.cuMemFree_v2(address)
    with pytest.raises(raw.CudaError) as caught:
        fetched(cuda, ptx, "fetch_2d", handle, [Request((0.5, 0.5))])
    assert caught.value.code == raw.ILLEGAL_ADDRESS
    assert "has been freed" in capfd.readouterr().err


def refused(
    cuda: Cuda, given: objects.Resource, how: objects.Sampling, view: objects.View | None = None
) -> int:
    seen = byref(view) if view else None
    return cuda.code("cuTexObjectCreate", byref(c_uint64()), byref(given), byref(how), seen)


@pytest.mark.parametrize(
    ("field", "value"),
    [("filter", 2), ("level_filter", 7), ("flags", 0x80), ("flags", objects.SEAMLESS)],
)
def test_sampling_that_makes_no_sense_is_an_invalid_value(cuda: Cuda, field: str, value: int):
    given, how = objects.of_array(cuda, simple()), objects.sampling(simple())
    assert refused(cuda, given, how) == raw.SUCCESS
    setattr(how, field, value)
    assert refused(cuda, given, how) == raw.INVALID_VALUE
    how = objects.sampling(simple())
    how.address[1] = 4
    assert refused(cuda, given, how) == raw.INVALID_VALUE


def test_only_floats_are_filtered_and_levels_want_normalized_coordinates(cuda: Cuda):
    bytes_ = Texture("2d", "u8", [filled("2d", "u8", (1, 4, 4), 1)], linear=True)
    assert refused(cuda, objects.of_array(cuda, bytes_), objects.sampling(bytes_)) == raw.INVALID_VALUE
    bytes_.as_float = True
    assert refused(cuda, objects.of_array(cuda, bytes_), objects.sampling(bytes_)) == raw.SUCCESS
    words = Texture("2d", "u32", [filled("2d", "u32", (1, 4, 4), 1)], linear=True, as_float=True)
    assert refused(cuda, objects.of_array(cuda, words), objects.sampling(words)) == raw.INVALID_VALUE
    levels = Texture("2d", "f32", pyramid("2d", 3))
    assert refused(cuda, objects.of_array(cuda, levels), objects.sampling(levels)) == raw.INVALID_VALUE


def test_memory_has_to_be_the_programs_aligned_and_within_limits(cuda: Cuda):
    texture = Texture("linear", "f32", [filled("linear", "f32", (1, 1, 64), 1)])
    address = in_memory(cuda, texture)
    how = objects.sampling(texture)
    for changed in (
        {"address": address + 4},
        {"address": 0},
        {"address": address + (1 << 40)},
        {"bytes": 0},
        {"bytes": 3},
        {"bytes": 512},  # of 256
        {"bytes": 2**64 - 1},
        {"channels": 3},
        {"channels": 0},
        {"format": 99},
    ):
        given = objects.linear(address, texture)
        for name, value in changed.items():
            setattr(given.of.linear, name, value)
        assert refused(cuda, given, how) == raw.INVALID_VALUE, changed
    given = objects.linear(address, texture)
    given.flags = 1
    assert refused(cuda, given, how) == raw.INVALID_VALUE
    given = objects.linear(address, texture)
    given.type = 4
    assert refused(cuda, given, how) == raw.INVALID_VALUE


def test_rows_have_to_fit_their_pitch_and_their_memory(cuda: Cuda):
    texture = Texture("2d", "f32", [filled("2d", "f32", (1, 5, 7), 4)], pitch=128)
    address = in_memory(cuda, texture)
    how = objects.sampling(texture)
    assert refused(cuda, objects.pitched(address, texture), how) == raw.SUCCESS
    for name, value in (
        ("pitch", 96),
        ("pitch", 130),
        ("pitch", 2**63),
        ("width", 0),
        ("height", 0),
        ("height", 6),
        ("height", 2**40),
        ("width", 2**62),
    ):
        given = objects.pitched(address, texture)
        setattr(given.of.pitched, name, value)
        assert refused(cuda, given, how) == raw.INVALID_VALUE, (name, value)


def test_a_view_has_the_arrays_extent_and_bits(cuda: Cuda):
    texture = Texture("a2d", "f32", [filled("a2d", "f32", (3, 4, 5), 2)])
    given, how = objects.of_array(cuda, texture), objects.sampling(texture)
    right = {"format": 0x0E, "width": 5, "height": 4, "depth": 3, "last_layer": 2}
    assert refused(cuda, given, how, objects.View(**right)) == raw.SUCCESS
    for changed in (
        {"format": 0x0D},
        {"format": 0x23},
        {"width": 6},
        {"height": 1},
        {"depth": 2},
        {"last_layer": 3},
        {"first_layer": 2, "last_layer": 1},
        {"last_level": 1},
    ):
        assert refused(cuda, given, how, objects.View(**(right | changed))) == raw.INVALID_VALUE, changed
    flat = Texture("linear", "f32", [filled("linear", "f32", (1, 1, 64), 1)])
    view = objects.View(width=64)
    assert refused(cuda, objects.linear(in_memory(cuda, flat), flat), how, view) == raw.INVALID_VALUE


@pytest.mark.parametrize("what", ["compressed", "seamless"])
def test_what_the_software_gpu_does_not_do_is_refused_by_name(
    cuda: Cuda, capfd: pytest.CaptureFixture[str], what: str
):
    if what == "compressed":
        texture = Texture("2d", "u32", [filled("2d", "u32", (1, 4, 4), 2)])
        view = objects.View(format=0x19, width=16, height=16)
        assert (
            refused(cuda, objects.of_array(cuda, texture), objects.sampling(texture), view)
            == raw.NOT_SUPPORTED
        )
    else:
        texture = Texture("cube", "f32", [filled("cube", "f32", (6, 4, 4), 1)], linear=True, normalized=True)
        how = objects.sampling(texture)
        how.flags |= objects.SEAMLESS
        assert refused(cuda, objects.of_array(cuda, texture), how) == raw.NOT_SUPPORTED
    assert "a texture object" in capfd.readouterr().err


def test_a_surface_wants_an_array_that_was_made_for_it(cuda: Cuda):
    out = byref(c_uint64())
    array = objects.array_of(cuda, simple())
    assert (
        cuda.code("cuSurfObjectCreate", out, byref(objects.resource(objects.ARRAY, array)))
        == raw.INVALID_VALUE
    )
    texture = Texture("linear", "f32", [filled("linear", "f32", (1, 1, 64), 1)])
    given = objects.linear(in_memory(cuda, texture), texture)
    assert cuda.code("cuSurfObjectCreate", out, byref(given)) == raw.INVALID_VALUE
    nothing = objects.resource(objects.ARRAY, 0x1234)
    assert cuda.code("cuSurfObjectCreate", out, byref(nothing)) == raw.INVALID_HANDLE


def test_objects_end_with_their_context(library: Cuda):
    context = library.new("cuCtxCreate_v2", 0, 0)
    handle = objects.texture_object(library, objects.of_array(library, simple()), simple())
    library.cuCtxDestroy_v2(context)
    context = library.new("cuCtxCreate_v2", 0, 0)
    assert library.code("cuTexObjectDestroy", handle) == raw.INVALID_VALUE
    library.cuCtxDestroy_v2(context)


def test_without_a_place_for_the_answer_nothing_is_made(cuda: Cuda):
    given, how = objects.of_array(cuda, simple()), objects.sampling(simple())
    nothing = ctypes.c_void_p()
    assert cuda.code("cuTexObjectCreate", nothing, byref(given), byref(how), nothing) == raw.INVALID_VALUE
    out = byref(c_uint64())
    assert cuda.code("cuTexObjectCreate", out, nothing, byref(how), nothing) == raw.INVALID_VALUE
    assert cuda.code("cuTexObjectCreate", out, byref(given), nothing, nothing) == raw.INVALID_VALUE
