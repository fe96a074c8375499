"""``nvidia-smi`` of a slice: the familiar table and the questions that people ask, answered for the slice."""
