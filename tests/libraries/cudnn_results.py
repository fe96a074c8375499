"""Calls functions of cuDNN as programs do: ``cudnn_results.py GROUP LIBRARY`` prints as JSON how far each is
from NumPy, by function."""

from __future__ import annotations

import json
import sys

from tests.libraries.convolutions import bias, convolution, fused, pooling
from tests.libraries.ctc import classification
from tests.libraries.cudnn_on_device import Cudnn
from tests.libraries.graphs import fused_graphs, graphs
from tests.libraries.layers import layers, normalisation, pieces, tensors
from tests.libraries.on_device import start, worst_of
from tests.libraries.recurrent import dropping, recurring
from tests.libraries.transformers import transformers

GROUPS = {
    each.__name__: each
    for each in (
        convolution,
        bias,
        fused,
        pooling,
        layers,
        normalisation,
        tensors,
        pieces,
        graphs,
        fused_graphs,
        recurring,
        dropping,
        classification,
        transformers,
    )
}


def main(group: str, library: str) -> None:
    start()
    print(json.dumps(worst_of(GROUPS[group](Cudnn(library)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
