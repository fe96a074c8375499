"""What PyTorch does without kernels of its own: those are machine code, which no software GPU runs."""

import gc

import torch

assert torch.cuda.is_available()
properties = torch.cuda.get_device_properties(0)
print(
    "name",
    torch.cuda.get_device_name(0) == properties.name,
    "capability",
    torch.cuda.get_device_capability(0),
)
free, total = torch.cuda.mem_get_info()
print("memory", 0 < free <= total == properties.total_memory)

# Tensors, and copies both ways.
values = torch.arange(100_000, dtype=torch.float32)
on_device = values.cuda()
print("copies", torch.equal(on_device.cpu(), values), on_device.device, on_device.clone().cpu()[-1].item())
print("zeros", torch.zeros(1000, device="cuda").cpu().sum().item())
table = values.reshape(100, 1000)
print("a view of a table", torch.equal(table.cuda()[10:20].cpu(), table[10:20]))
print("one number", on_device[4711].item())

# Streams and events.
side = torch.cuda.Stream()
start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
pinned = values.pin_memory()
print("pinned", pinned.is_pinned(), values.is_pinned())
with torch.cuda.stream(side):
    start.record()
    sent = torch.empty_like(values, device="cuda")
    sent.copy_(pinned, non_blocking=True)
    end.record()
torch.cuda.current_stream().wait_stream(side)
back = torch.empty_like(pinned).pin_memory()
back.copy_(sent, non_blocking=True)
torch.cuda.synchronize()
print("streams", torch.equal(back, values), end.query(), start.elapsed_time(end) >= 0, side.query())

# The caching allocator and its statistics.
before = torch.cuda.memory_allocated()
block = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
print("allocated", torch.cuda.memory_allocated() - before, torch.cuda.max_memory_allocated() >= 1 << 20)
del block, on_device, sent
gc.collect()
torch.cuda.empty_cache()
print("given back", torch.cuda.memory_reserved() <= 4 << 20, torch.cuda.memory_stats()["num_ooms"])

# More than the slice has is refused, and the program goes on.
try:
    torch.empty(total + 1, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError as error:
    print("out of memory", "CUDA out of memory" in str(error))
print("and on", torch.ones(5).cuda().cpu().tolist())
