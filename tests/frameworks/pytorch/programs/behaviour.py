"""What a program sees of PyTorch's device beyond results: prints a line for each thing."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import tempfile
import warnings
from collections.abc import Callable

import torch
from torch.nn.utils import rnn
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader

MIB = 1 << 20
ON_TWO_DEVICES = "Expected all tensors to be on the same device, but found at least two devices, "


class Squares(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.tensor(index) ** 2


def main() -> None:
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        name = torch.cuda.get_device_name()
        small = torch.arange(3.0, device="cuda") * 2
    print("name", name.endswith("(software GPU)") or name == "Software GPU")
    print("a notice of ours", [line for line in said.getvalue().splitlines() if "making PyTorch" not in line])
    print("small numbers", small.tolist(), small.is_cuda)
    random_numbers()
    results()
    memory()
    refusals()
    two_devices()
    statistics()
    beside()
    kinds()


def random_numbers() -> None:
    def draw() -> torch.Tensor:
        return torch.cat([torch.randn(5, device="cuda"), torch.rand(5, device="cuda")])

    torch.cuda.manual_seed(3)
    first = draw()
    torch.cuda.manual_seed(3)
    print("a seed repeats", torch.equal(first, draw()))
    one, other = (torch.Generator("cuda").manual_seed(5) for _ in range(2))
    drawn = [torch.randn(7, device="cuda", generator=each) for each in (one, one, other, other)]
    print("another generator repeats", torch.equal(drawn[0], drawn[2]) and torch.equal(drawn[1], drawn[3]))
    state = torch.cuda.get_rng_state()
    first = draw()
    torch.cuda.set_rng_state(state)
    print("a state repeats", torch.equal(first, draw()))
    print("two draws differ", not torch.equal(draw(), draw()))
    before = torch.get_rng_state()
    draw()
    torch.nn.functional.dropout(torch.ones(9, device="cuda"), 0.5)
    print("the processor's generator is untouched", torch.equal(before, torch.get_rng_state()))

    def dropped(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.dropout(x, 0.5) * x

    x = torch.ones(1000, device="cuda", requires_grad=True)
    y = checkpoint(dropped, x, use_reentrant=False)
    y.sum().backward()
    print("recomputed for the gradient", torch.equal(x.grad, 2 * y.detach()))


def results() -> None:
    grown = torch.empty(0, device="cuda")
    torch.cat([torch.ones(3, device="cuda")] * 2, out=grown)
    print("out grew", list(grown.shape), grown.device, bool((grown == 1).all()))
    table = torch.zeros(2, 2, device="cuda")
    table[:, 1] = 7
    print("a view is written", table.tolist())


def memory() -> None:
    before = torch.cuda.memory_allocated()
    kept = torch.ones(MIB, device="cuda") + 1
    grew = torch.cuda.memory_allocated() - before
    del kept
    print("memory counted", grew == 4 * MIB, torch.cuda.memory_allocated() == before)
    total = torch.cuda.mem_get_info()[1]
    error = failure(lambda: torch.ones(total // 4 + MIB, device="cuda").mul(2))
    print("out of memory", type(error).__name__, "Tried to allocate" in str(error))
    print("and on", (torch.ones(3, device="cuda")).sum().item())


def refusals() -> None:
    x = torch.ones(4, device="cuda")

    def capture() -> None:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            x.add_(1)

    tell("capture", failure(capture), "cannot be captured in a CUDA graph")
    half = x.half()
    with_cudnn = lambda: torch.cudnn_grid_sampler(half[None, None, None], half.view(1, 1, 2, 2))  # noqa: E731
    tell("no kernel", failure(with_cudnn), "is not there on a software GPU")


def two_devices() -> None:
    here, there = torch.ones(3, device="cuda"), torch.ones(3)
    model = torch.nn.Linear(3, 2).cuda()
    print("tensors on two devices are refused:")
    for what, act in {
        "add": lambda: here + there,
        "add in place on the CPU": lambda: there.add_(here),
        "out on the CPU": lambda: torch.add(here, here, out=there),
        "a model's input": lambda: model(there),
        "two GPUs": lambda: here + torch.ones(3, device="cuda:1"),
    }.items():
        said = str(failure(act)).partition("\n")[0]
        print("", what, said.removeprefix(ON_TWO_DEVICES))
    lengths, start = torch.tensor([3, 2]), torch.tensor([0])
    sequences, lstm = torch.ones(3, 2, 4, device="cuda"), torch.nn.LSTM(4, 3).cuda()
    scores = torch.randn(4, 2, 5, device="cuda").log_softmax(2)
    marks = torch.tensor([[1, 2], [3, 4]], dtype=torch.int32)
    allowed = {
        "copy": lambda: (there.copy_(here), here.copy_(there)),
        "to": lambda: here.to("cpu").to("cuda").to("cuda:1"),
        "a number": lambda: (here + torch.tensor(2.0), torch.where(here > 0, here, torch.tensor(0.0))),
        "indices": lambda: (here[torch.tensor([0, 2])], here[torch.tensor([True, False, True])]),
        "put": lambda: (here.index_put((start,), torch.tensor(3.0)), here.__setitem__(start, 7)),
        "packed": lambda: rnn.pad_packed_sequence(lstm(rnn.pack_padded_sequence(sequences, lengths))[0]),
        "ctc": lambda: torch.nn.functional.ctc_loss(scores, marks.cuda(), lengths + 1, lengths - 1),
        "chances": lambda: torch.empty(2, device="cuda").bernoulli_(torch.tensor([0.5, 0.5])),
        "lists": lambda: torch._foreach_add([here, there], [here, there]),
        "scales": lambda: torch.quantize_per_channel(
            torch.ones(2, 2, device="cuda"), torch.ones(2), torch.zeros(2, dtype=torch.long), 0, torch.qint8
        ),
    }
    failed = {what: error for what, act in allowed.items() if (error := failure(act))}
    print(
        "tensors on two devices are taken:", len(allowed) - len(failed), "of", len(allowed), *failed.items()
    )


def statistics() -> None:
    mean, variance = torch.zeros(2, device="cuda"), torch.zeros(2, device="cuda")
    x = torch.arange(1.0, 9.0, device="cuda").view(8, 1).repeat(1, 2)
    torch.batch_norm_update_stats(x, mean, variance, 1.0)
    print("statistics", mean.tolist(), variance.tolist())


def tell(what: str, error: BaseException | None, words: str) -> None:
    # What a capture ends with may hide what came first.
    while error is not None and words not in str(error) and error.__context__ is not None:
        error = error.__context__
    print(what, type(error).__name__, words if words in str(error) else error)


def failure(act: Callable[[], object]) -> BaseException | None:
    try:
        act()
    except Exception as error:
        return error
    return None


def beside() -> None:
    model = torch.nn.Linear(3, 2).cuda()
    with tempfile.TemporaryDirectory() as folder:
        torch.save(model.state_dict(), f"{folder}/model")
        loaded = torch.load(f"{folder}/model")
    print("saved and loaded", loaded["weight"].is_cuda and torch.equal(loaded["weight"], model.weight))
    pinned = torch.arange(5.0).pin_memory()
    print("pinned", pinned.is_pinned() and torch.equal(pinned.to("cuda", non_blocking=True).cpu(), pinned))
    loader = DataLoader(Squares(), batch_size=2, num_workers=2, pin_memory=True)
    print("workers of a loader", [int(each) for batch in loader for each in batch.cuda()])
    reading, writing = os.pipe()
    if (child := os.fork()) == 0:
        error = failure(lambda: torch.ones(2, device="cuda"))
        os.write(writing, type(error).__name__.encode())
        os._exit(0)
    os.waitpid(child, 0)
    print("device in a forked child", os.read(reading, 99).decode())


def kinds() -> None:
    z = torch.randn(8, dtype=torch.complex64)
    print("complex", torch.allclose((z.cuda().conj() * z.cuda()).cpu(), z.conj() * z))
    sparse = torch.eye(4).to_sparse()
    product = torch.sparse.mm(sparse.cuda() * 3, torch.ones(4, 2, device="cuda"))
    print("sparse", product.is_cuda and bool((product == 3).all()))
    quantised = torch.quantize_per_tensor(torch.arange(4.0).cuda(), 0.5, 1, torch.quint8)
    print("quantised", quantised.is_cuda and quantised.dequantize().tolist() == [0.0, 1.0, 2.0, 3.0])


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
    sys.stdout.flush()
