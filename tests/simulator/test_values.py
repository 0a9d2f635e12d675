"""Plain data and tensors across the process border, without pickle."""

import msgspec
import numpy
import pytest
import torch

from simulator import ResultError, values


@pytest.mark.parametrize(
    "value", [None, True, 3, -(2**62), 2.5, "text", b"bytes", [1, [2]], (1, (2, 3)), {"a": {1: None}}, []]
)
def test_plain_data(value):
    again = values.decode(values.encode(value))
    assert again == value
    assert type(again) is type(value)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64, torch.uint8]
)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_tensors_keep_their_bits(dtype, shape):
    tensor = (torch.arange(max(1, int(numpy.prod(shape)))) % 2).to(dtype)[: int(numpy.prod(shape))].reshape(shape)
    again = values.decode(values.encode([tensor]))[0]
    assert again.dtype == dtype
    assert again.shape == tensor.shape
    assert torch.equal(again, tensor)


def test_views_and_gradients():
    tensor = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    again = values.decode(values.encode(tensor))
    assert torch.equal(again, tensor)
    assert not again.requires_grad


def test_arrays_and_scalars():
    array = numpy.arange(6, dtype=numpy.int32).reshape(2, 3)
    again = values.decode(values.encode({"array": array, "scalar": numpy.float64(0.5)}))
    assert numpy.array_equal(again["array"], array)
    assert again["array"].dtype == array.dtype
    assert again["scalar"] == 0.5


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (object(), "the result is a object"),
        ({"model": [torch.nn.Linear(1, 1)]}, r"the result\['model'\]\[0\] is a torch.nn.modules.linear.Linear"),
        ({1.5: 1}, "dictionary key 1.5"),
        (2**80, "cannot be sent back"),
    ],
)
def test_the_rest_is_refused_by_name(value, words):
    with pytest.raises(ResultError, match=words):
        values.encode(value)


def test_hostile_bytes_are_data():
    evil = msgspec.msgpack.encode(msgspec.msgpack.Ext(1, msgspec.msgpack.encode(["load", [1], b"x"])))
    with pytest.raises(ResultError, match="unknown dtype"):
        values.decode(evil)
