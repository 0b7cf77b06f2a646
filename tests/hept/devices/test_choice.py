"""Names of devices: what is there, what is not, and what is no name."""

import pytest
import torch

from hepdata.errors import InputError
from hept.devices.choice import check_count, choose_device


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)


@pytest.fixture
def no_gpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def test_auto_takes_a_gpu_if_there_is_one(two_gpus):
    assert choose_device("auto") == torch.device("cuda")
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("cuda:1") == torch.device("cuda", 1)


def test_auto_takes_the_cpu_otherwise(no_gpu):
    assert choose_device() == torch.device("cpu")


def test_auto_takes_the_gpu_of_an_apple(no_gpu, monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: True)
    assert choose_device("auto") == choose_device("mps") == torch.device("mps")


@pytest.mark.parametrize("text", ["tpu", "cuda:", "cuda:-1", "CPU", "", "cpu:0 "])
def test_what_is_no_name(text):
    with pytest.raises(InputError, match="found no name of a device; expected one of auto, cpu, cuda"):
        choose_device(text)


@pytest.mark.parametrize("text", ["cuda", "cuda:0", "mps"])
def test_a_device_that_is_not_there(no_gpu, text):
    with pytest.raises(InputError, match=f"`device='{text}'`: found no .*GPU that torch can use"):
        choose_device(text)


def test_a_number_that_is_too_large(two_gpus):
    with pytest.raises(InputError, match="`device='cuda:7'`: found 2 GPUs, cuda:0 to cuda:1; expected"):
        choose_device("cuda:7")


def test_several_devices(two_gpus):
    check_count(torch.device("cuda"), 2)
    check_count(torch.device("cpu"), 5)
    with pytest.raises(InputError, match="`devices=3`: found 2 GPUs"):
        check_count(torch.device("cuda"), 3)
    with pytest.raises(InputError, match="`device='cuda:1'`: found `devices=2` together with it"):
        check_count(torch.device("cuda", 1), 2)
