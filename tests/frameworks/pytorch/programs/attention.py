"""Which way PyTorch takes for attention on a GPU of another compute capability: what it keeps of the device's
properties is changed before it first chooses. Nothing is computed.
"""

import ctypes
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

properties = torch.cuda.get_device_properties(0)
kept = ctypes.cast(ctypes.c_void_p.from_address(id(properties) + 16).value, ctypes.POINTER(ctypes.c_int))
(at,) = (i for i in range(200) if (kept[i], kept[i + 1]) == (7, 5))
kept[at], kept[at + 1] = int(sys.argv[1]), 0
assert properties.major == int(sys.argv[1])

q = torch.empty(2, 4, 128, 64, dtype=torch.float16, device="cuda")
print(SDPBackend(torch._fused_sdp_choice(q, q, q)).name)
with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    print(SDPBackend(torch._fused_sdp_choice(q, q, q)).name)
