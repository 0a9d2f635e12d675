"""Floating point operations of one operator: matrix products, convolutions, attention; a multiply-add counts as two.

Element-wise operators, normalisations and softmax count as nothing, as in torch.utils.flop_counter, whose formulas
these are; added are CPU kernels that it does not know.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, sdpa_backward_flop_count, sdpa_flop_count

_aten: Any = torch.ops.aten


def _attention(args: Any, out: Any) -> int:
    query, key, value = args[:3]
    return int(sdpa_flop_count(query.shape, key.shape, value.shape))  # type: ignore[no-untyped-call]


def _attention_backward(args: Any, out: Any) -> int:
    grad, query, key, value = args[:4]
    return int(sdpa_backward_flop_count(grad.shape, query.shape, key.shape, value.shape))  # type: ignore[no-untyped-call]


def _rnn_layer(args: Any, out: Any) -> int:
    """Every time step multiplies input and hidden state with their weights (biases are in the element-wise part)."""
    rows = args[0].shape[0] * args[0].shape[1]
    return int(2 * rows * sum(weight.numel() for weight in args[1:3]))


_OF_CPU = {
    _aten._scaled_dot_product_flash_attention_for_cpu: _attention,
    _aten._scaled_dot_product_flash_attention_for_cpu_backward: _attention_backward,
    _aten.mkldnn_rnn_layer: _rnn_layer,
}


def count_flops(func: Any, args: Any, kwargs: Any, out: Any) -> int:
    """FLOPs of one call of an operator below autograd; 0 for those that this module does not count."""
    packet = func._overloadpacket
    if (formula := _OF_CPU.get(packet)) is not None:
        return formula(args, out)
    formula = flop_registry.get(packet)
    return int(formula(*args, **kwargs, out_val=out)) if formula is not None else 0
