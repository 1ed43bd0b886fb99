import pickle
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.checkpoint import checkpoint

from course_utils import launch, measure

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="TCP_INFO is Linux's")
N_BYTES = 4_000_000


def all_reduce_bytes(repeats: int = 1) -> int:
    x = torch.ones(N_BYTES // 4)
    with measure.count_bytes() as sent:
        for _ in range(repeats):
            dist.all_reduce(x)
    return sent.bytes


@linux
@pytest.mark.parametrize(("world_size", "factor"), [(2, 1.0), (4, 1.5)])
def test_each_rank_sends_what_a_ring_sends(world_size, factor):
    sent = launch(all_reduce_bytes, world_size=world_size, backend="gloo")
    assert sent == pytest.approx([factor * N_BYTES] * world_size, rel=0.01)


@linux
def test_another_launch_beside_does_not_count():
    with ThreadPoolExecutor() as pool:
        other = pool.submit(launch, all_reduce_bytes, 40, world_size=2, backend="gloo")
        sent = launch(all_reduce_bytes, 5, world_size=4, backend="gloo")
        other.result()
    assert sent == pytest.approx([5 * 1.5 * N_BYTES] * 4, rel=0.01)


@linux
def test_bytes_in_the_buffer_count_and_are_exact_at_once():
    def send_to_a_sleeper() -> int:
        x = torch.ones(N_BYTES // 4)
        dist.barrier()
        with measure.count_bytes() as sent:
            if dist.get_rank() == 0:
                dist.send(x, 1)
            else:
                time.sleep(0.2)
                dist.recv(x, 0)
        return sent.bytes

    sender, receiver = launch(send_to_a_sleeper, world_size=2, backend="gloo")
    assert N_BYTES <= sender < 1.001 * N_BYTES
    assert receiver < 1000


@linux
def test_sockets_are_counted_exactly_and_left_alone():
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as client, server.accept()[0] as peer:
        client.settimeout(5)
        with measure.count_bytes() as sent:
            client.sendall(b"x" * 12_345)
            assert sent.bytes == 12_345  # readable inside too
            peer.sendall(b"y" * 55)
        assert sent.bytes == 12_400
        assert client.gettimeout() == 5
        assert client.recv(100) == b"y" * 55
        assert measure.bytes_sent() >= 12_400


@linux
def test_a_duplicated_descriptor_counts_once():
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as client, client.dup():
        with measure.count_bytes() as sent:
            client.sendall(b"x" * 100)
        assert sent.bytes == 100


@linux
def test_a_connection_closed_inside_is_an_error_and_not_a_smaller_number():
    server = socket.create_server(("127.0.0.1", 0))
    with server, socket.create_connection(server.getsockname()) as client:
        client.sendall(b"x")
        with measure.count_bytes() as sent:
            client.close()
        with pytest.raises(RuntimeError, match="before destroy_process_group"):
            _ = sent.bytes


def test_without_tcp_info_the_loopback_counter_is_read(monkeypatch):
    monkeypatch.setattr(measure, "_sent_by_socket", lambda: None)
    server = socket.create_server(("127.0.0.1", 0))
    client = socket.create_connection(server.getsockname())
    with server, client, server.accept()[0] as peer, measure.count_bytes() as sent:
        for _ in range(100):
            client.sendall(b"x" * 10_000)
            peer.recv(10_000, socket.MSG_WAITALL)
    assert sent.bytes >= 1_000_000  # the whole machine's, headers included

    monkeypatch.setattr(measure.psutil, "net_io_counters", lambda pernic: {})
    with pytest.raises(OSError, match="Linux"):
        measure.bytes_sent()


def test_operations_are_the_backends_own():
    def run() -> measure.Operations:
        x = torch.ones(1000)
        with measure.count_operations() as operations:
            dist.all_reduce(x)
            dist.all_reduce(x.bfloat16(), async_op=True).wait()
            dist.reduce_scatter_single(torch.empty(500), x)  # gloo does it by an all_reduce
            dist.broadcast(x, 0)
            assert operations == {}
        dist.all_reduce(x)  # after the region
        return operations

    for operations in launch(run, world_size=2, backend="gloo"):
        assert operations == {"gloo:all_reduce": 3, "gloo:broadcast": 1}
        assert operations.bytes == {"gloo:all_reduce": 10_000, "gloo:broadcast": 4000}
        assert operations.sequence[:2] == [("gloo:all_reduce", 4000), ("gloo:all_reduce", 2000)]


def test_a_ring_written_by_hand_is_no_all_reduce():
    def run() -> dict[str, int]:
        x, y = torch.ones(10), torch.empty(10)
        with measure.count_operations() as operations:
            works = [dist.isend(x, 1 - dist.get_rank()), dist.irecv(y, 1 - dist.get_rank())]
            for work in works:
                work.wait()
        return dict(operations)

    assert launch(run, world_size=2, backend="gloo") == [{"gloo:recv": 1, "gloo:send": 1}] * 2


def test_the_profiler_adds_nothing_to_the_output(capfd):
    def run() -> None:
        with measure.count_operations():
            dist.barrier()

    launch(run, world_size=2, backend="gloo")
    assert capfd.readouterr() == ("", "")


def test_storages_count_once_and_whole():
    x = torch.zeros(100)
    assert measure.storage_bytes(x) == 400
    assert measure.storage_bytes(x, x, {"view": [x[:3]]}, "no tensor", 5, None) == 400
    assert measure.storage_bytes(x[:3]) == 400
    assert measure.storage_bytes(x, x.clone(), torch.zeros(3, dtype=torch.int64)) == 824
    assert measure.storage_bytes(torch.empty(10, device="meta"), torch.empty(10, device="meta")) == 80
    assert measure.storage_bytes() == 0


def test_parameters_gradients_and_optimizer_states():
    model = nn.Sequential(
        nn.Linear(10, 10), nn.BatchNorm1d(10)
    )  # 110 + 20 parameters, 2·10 buffers and a counter
    optimizer = torch.optim.Adam(model.parameters())
    assert measure.parameter_bytes(model) == 520
    assert measure.storage_bytes(model) == 520 + 80 + 8
    assert (measure.gradient_bytes(model), measure.optimizer_bytes(optimizer)) == (0, 0)
    model(torch.randn(4, 10)).sum().backward()
    optimizer.step()
    assert measure.gradient_bytes(model) == 520
    assert (
        measure.optimizer_bytes(optimizer) == 2 * 520 + 4 * 4
    )  # two moments, and a step counter a parameter


def test_tied_weights_count_once():
    model = nn.Sequential(nn.Linear(8, 8, bias=False), nn.Linear(8, 8, bias=False))
    model[1].weight = model[0].weight
    assert measure.parameter_bytes(model) == 256


def test_a_sharded_model_counts_its_shard():
    def run() -> tuple[int, int, int, int]:
        from torch.distributed.fsdp import fully_shard
        from torch.distributed.optim import ZeroRedundancyOptimizer

        model, plain = nn.Linear(64, 64), nn.Linear(64, 64)
        fully_shard(model)
        optimizer = torch.optim.Adam(model.parameters())
        zero = ZeroRedundancyOptimizer(plain.parameters(), torch.optim.Adam)
        (model(torch.ones(2, 64)).sum() + plain(torch.ones(2, 64)).sum()).backward()
        optimizer.step()
        zero.step()
        sharded = (
            measure.parameter_bytes(model),
            measure.gradient_bytes(model),
            measure.optimizer_bytes(optimizer),
        )
        return *sharded, measure.optimizer_bytes(zero)

    full = 4 * (64 * 64 + 64)
    results = launch(run, world_size=4, backend="gloo")
    for parameters, gradients, states, _ in results:
        assert parameters == gradients == full // 4
        assert states == 2 * full // 4 + 2 * 4
    assert sum(zero for *_, zero in results) == 2 * full + 2 * 4  # over all ranks: each state once


def test_saved_tensors_are_the_activations():
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 8))
    x = torch.ones(10, 64)
    saved = measure.saved_tensor_bytes(lambda: model(x))
    assert saved == 4 * (10 * 64 + 10 * 128)  # the input, and ReLU's output, which the second layer saves too
    assert measure.saved_tensor_bytes(lambda: checkpoint(model, x, use_reentrant=False)) == 4 * 10 * 64
    with torch.no_grad():
        assert measure.saved_tensor_bytes(lambda: model(x)) == 0


def test_median_of_timings():
    calls = []
    seconds = measure.median_seconds(
        lambda: calls.append("fn"), repeats=3, warmup=2, before=lambda: calls.append("b")
    )
    assert calls == ["b", "fn"] * 5
    assert len(seconds.timings) == 3
    assert 0 < seconds.min <= seconds < 1
    seconds = measure.Seconds([0.1, 0.2, 0.3, 0.4, 10.0])
    assert seconds == 0.3
    assert seconds.min == 0.1
    assert seconds.spread == pytest.approx(0.2)
    assert repr(seconds) == "⟨300 ms⟩"
    assert pickle.loads(pickle.dumps(seconds)).timings == seconds.timings
    assert measure.Seconds([2.0]).spread == 0
    assert measure.median_seconds(lambda: time.sleep(0.02), repeats=2, warmup=0) >= 0.02
    with pytest.raises(ValueError, match="repeats must be at least 1"):
        measure.median_seconds(lambda: None, repeats=0)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.138, "s", "138 ms"),
        (1.5, "s", "1.5 s"),
        (0.99996, "s", "1 s"),
        (90, "s", "90 s"),
        (4.2e-5, "s", "42 µs"),
        (3e-8, "s", "30 ns"),
        (0, "s", "0 s"),
        (-0.002, "s", "-2 ms"),
        (0, "B", "0 B"),
        (1000, "B", "1,000 B"),
        (1536, "B", "1.5 KiB"),
        (104.3 * 2**30, "B", "104 GiB"),
        (900e9, "B/s", "900 GB/s"),
        (1e12, "FLOP", "1 TFLOP"),
        (12_345, "tokens/s", "12,345 tokens/s"),
        (1.5024, "", "1.5"),
    ],
)
def test_quantities(value, unit, text):
    assert measure.quantity(value, unit) == text
    assert measure.measured(value, unit) == f"⟨{text}⟩"


def test_measured_takes_text():
    assert measure.measured("3 of 4") == "⟨3 of 4⟩"
