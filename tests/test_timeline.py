import pickle
import time

import pytest
import torch
import torch.distributed as dist

from course_utils import launch, timeline
from course_utils.timeline import Span, exposed, extent, record, recorded_spans, span, span_until_done, total


@pytest.fixture(autouse=True)
def no_spans_before():
    recorded_spans()


def test_spans_are_recorded_in_order_and_forgotten():
    @span("call", kind="forward")
    def twice(x: int) -> int:
        return 2 * x

    with span("outer"), span("inner", kind="communication"):
        time.sleep(0.002)
    assert [twice(1), twice(2)] == [2, 4]
    spans = recorded_spans()
    assert [(s.name, s.kind) for s in spans] == [
        ("outer", "compute"),
        ("inner", "communication"),
        ("call", "forward"),
        ("call", "forward"),
    ]
    assert all(s.end >= s.start for s in spans)
    assert spans[1].end - spans[1].start >= 0.002
    assert pickle.loads(pickle.dumps(spans)) == spans
    assert recorded_spans() == []


def test_a_span_is_recorded_when_the_block_fails():
    with pytest.raises(ZeroDivisionError), span("fails"):
        _ = 1 / 0
    assert [s.name for s in recorded_spans()] == ["fails"]


def test_an_unknown_kind_is_an_error_that_lists_the_kinds():
    with pytest.raises(ValueError, match=r"'comm' is unknown.*communication"):
        record("x", "comm", 0.0, 1.0)
    with pytest.raises(ValueError, match="'comm' is unknown"):
        total([], "comm")


def test_interval_arithmetic():
    spans = [
        Span("forward", "forward", 0, 4),
        Span("backward", "backward", 4, 10),
        Span("bucket 0", "communication", 6, 9),  # hidden
        Span("bucket 1", "communication", 8, 12),  # overlaps bucket 0; 2 of it exposed
        Span("bucket 2", "communication", 15, 16),  # exposed
        Span("wait", "idle", 10, 16),  # waiting hides nothing
    ]
    assert total(spans, "forward") == 4
    assert total(spans, "forward", "backward") == 10
    assert total(spans, "communication") == 7  # 6 to 12 and 15 to 16
    assert total(spans) == 16
    assert exposed(spans) == 3
    assert exposed([]) == total([]) == extent([]) == 0
    assert extent([spans, [Span("late", "compute", 20, 21)], []]) == 21


def test_ranks_share_one_clock_and_simulated_computation_runs_in_parallel():
    def run() -> list[Span]:
        dist.barrier()
        with span("work"):
            timeline.simulated_compute(0.2)
        return recorded_spans()

    before = time.perf_counter()
    spans = launch(run, world_size=4, backend="gloo")
    after = time.perf_counter()
    assert [[s.name for s in rank] for rank in spans] == [["work"]] * 4
    assert all(before < s.start < s.end < after for rank in spans for s in rank)
    assert 0.2 <= extent(spans) < 0.6  # one after the other it would be 0.8


def test_asynchronous_communication_is_recorded_until_it_is_done():
    def run() -> list[Span]:
        x = torch.ones(1000)
        dist.all_reduce(x)
        if dist.get_rank() == 1:
            timeline.simulated_compute(0.2)  # rank 0 has to wait for it
        work = span_until_done(dist.all_reduce(x, async_op=True), "all_reduce")
        with span("backward", "backward"):
            timeline.simulated_compute(0.05)
        work.wait()
        dist.barrier()
        return recorded_spans()

    early, late = launch(run, world_size=2, backend="gloo")
    assert {s.name for s in early} == {s.name for s in late} == {"all_reduce", "backward"}
    assert total(early, "communication") >= 0.15
    assert exposed(early) >= 0.1
    assert exposed(late) < exposed(early)


def test_a_figure_has_a_row_a_rank_rank_0_on_top():
    spans = [
        [Span("forward", "forward", 1.0, 1.5), Span("b", "communication", 1.2, 1.6)],
        [Span("x", "idle", 1.0, 2.0)],
    ]
    axes = timeline.draw(spans, title="Two ranks").axes[0]
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == ["rank 0", "rank 1"]
    assert axes.yaxis_inverted()
    assert axes.get_xlim() == pytest.approx((0, 1005))
    assert axes.get_xlabel() == "time (ms)"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["forward", "communication", "idle"]
    forward, communication, idle = (p for p in axes.patches if p.get_x() >= 0)
    assert forward.get_y() + forward.get_height() == pytest.approx(communication.get_y())  # a lane below
    assert idle.get_height() == pytest.approx(2 * forward.get_height())  # no overlap: the whole row
    assert communication.get_hatch() != forward.get_hatch()


def test_a_name_is_written_only_where_it_fits():
    axes = timeline.draw([[Span("short", "compute", 0, 0.001), Span("long", "compute", 0.001, 1)]]).axes[0]
    assert {text.get_text(): text.get_visible() for text in axes.texts} == {"short": False, "long": True}


def test_nothing_to_draw_is_an_error():
    with pytest.raises(ValueError, match="return recorded_spans"):
        timeline.draw([[], []])
