"""What PyTorch has around operators, on its device: prints a line for each thing."""

from __future__ import annotations

import tempfile
import threading
import time
import warnings
from collections.abc import Callable

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, Dataset

MIB = 1 << 20
CAPTURED = "cannot be captured in a CUDA graph"


class OnTheDevice(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((2,), index, device="cuda")


def main() -> None:
    profiler()
    events()
    saved_and_loaded()
    memory()
    torchscript()
    graphs()
    loaders()
    print("ten threads", ten_at_once(train))
    print("ten streams", ten_at_once(add_on_a_stream))


def profiler() -> None:
    layer, x = nn.Linear(64, 64).cuda(), torch.ones(8, 64, device="cuda")
    for activities in ([ProfilerActivity.CPU], [ProfilerActivity.CPU, ProfilerActivity.CUDA]):
        with profile(activities=activities, record_shapes=True, profile_memory=True) as seen:
            layer(x).sum().backward()
            torch.cuda.synchronize()
        with tempfile.NamedTemporaryFile(suffix=".json") as trace:
            seen.export_chrome_trace(trace.name)
        names = {each.key: each for each in seen.key_averages()}
        print("profiled", len(activities), names["aten::addmm"].cpu_time_total > 0, "aten::sum" in names)


def events() -> None:
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    x, begun = torch.ones(200, 200, device="cuda"), time.perf_counter()
    begin.record()
    for _ in range(20):
        x = x @ x * 1e-3
    end.record()
    end.synchronize()
    print("time between events", 0 < begin.elapsed_time(end) <= (time.perf_counter() - begun) * 1e3)


def saved_and_loaded() -> None:
    kept = {"weight": torch.randn(3, 2, device="cuda"), "sparse": torch.eye(3).to_sparse().cuda()}
    places = {}
    with tempfile.NamedTemporaryFile() as file:
        torch.save(kept, file.name)
        for where in (None, "cpu", "cuda:1", {"cuda:0": "cuda:1"}):
            loaded = torch.load(file.name, map_location=where)
            same = torch.equal(loaded["weight"].cpu(), kept["weight"].cpu())
            sparse = bool((loaded["sparse"].to_dense().cpu() == torch.eye(3)).all())
            places[str(where)] = str(loaded["weight"].device) if same and sparse else "another"
    print("loaded to", *places.values())


def memory() -> None:
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    kept = torch.ones(MIB, device="cuda")
    more = kept + 1
    del more
    peak = torch.cuda.max_memory_allocated() - before
    held = torch.cuda.memory_stats()["reserved_bytes.all.current"] == torch.cuda.memory_reserved()
    print("most memory", 8 * MIB <= peak < 9 * MIB, held, bool(torch.cuda.memory_summary()))
    total = torch.cuda.mem_get_info()[1]
    print("larger than the slice", failure(lambda: torch.empty(total // 4 + 1, device="cuda")))
    torch.cuda.set_per_process_memory_fraction(0.01)
    print("a fraction", failure(lambda: torch.empty(total // 8, device="cuda")))
    torch.cuda.set_per_process_memory_fraction(1.0)


def torchscript() -> None:
    script = torch.jit.script(nn.Sequential(nn.Linear(3, 3), nn.ReLU()).cuda())
    x = torch.ones(2, 3, device="cuda", requires_grad=True)
    # From the third time on it is optimised.
    sums = [script(x).mul(2).sigmoid().sum() for _ in range(4)]
    torch.stack(sums).sum().backward()
    print("TorchScript", len({each.item() for each in sums}) == 1, x.grad is not None)


def graphs() -> None:
    layer, x = nn.Linear(4, 4).cuda(), torch.ones(2, 4, device="cuda")
    print("graphed", failure(lambda: torch.cuda.make_graphed_callables(layer, (x,)), CAPTURED))
    print("and on", layer(x).shape == (2, 4), torch.cuda.is_current_stream_capturing())


def loaders() -> None:
    numbers = torch.utils.data.TensorDataset(torch.arange(40.0).view(20, 2))
    loader = DataLoader(numbers, batch_size=6, num_workers=2, pin_memory=True, persistent_workers=True)
    total = 0.0
    for _ in range(2):
        for (batch,) in loader:
            total += batch.to("cuda", non_blocking=True).sum().item() if batch.is_pinned() else 0
    print("pinned batches", total == 2 * 780)
    refused = failure(lambda: list(DataLoader(OnTheDevice(), num_workers=1)), "Cannot re-initialize CUDA")
    print("device in a loader's worker", refused)
    spawned = DataLoader(OnTheDevice(), batch_size=2, num_workers=2, multiprocessing_context="spawn")
    batches = list(spawned)
    print("from spawned workers", {str(each.device) for each in batches}, torch.cat(batches).tolist())
    one, _ = torch.multiprocessing.get_context("spawn").Pipe()
    print("to another process", failure(lambda: one.send(batches[0]), "Send tensor.cpu()"))


def ten_at_once(act: Callable[[int], bool]) -> int:
    """How many of ten threads' results are right."""
    right = []
    threads = [threading.Thread(target=lambda number=n: right.append(act(number))) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(right)


def train(number: int) -> bool:
    """Gradients of their own, in parameters of their own: a line through the origin."""
    x = torch.linspace(-1, 1, 32, device="cuda")[:, None]
    layer = nn.Linear(1, 1).cuda()
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    for _ in range(150):
        optimizer.zero_grad()
        nn.functional.mse_loss(layer(x), number * x / 10).backward()
        optimizer.step()
    return abs(layer.weight.item() - number / 10) < 0.05


def add_on_a_stream(number: int) -> bool:
    with torch.cuda.stream(torch.cuda.Stream()):
        x = torch.zeros(100, device="cuda")
        for _ in range(50):
            x += number
        return x.sum().item() == 100 * 50 * number


def failure(act: Callable[[], object], words: str = "") -> str:
    try:
        act()
    except Exception as error:
        # What a capture ends with may hide what came first.
        inner: BaseException | None = error
        while inner is not None and words not in str(inner):
            inner = inner.__context__
        return f"{type(inner).__name__} {words}".strip() if inner is not None else repr(error)
    return "nothing"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
