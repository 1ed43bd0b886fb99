"""The concept test of part 4, chapters 13 and 14."""

from course_utils.concepts.question import Question

BYTES, TIME, STEP = "Bytes", "Time of a collective", "A step on many ranks"

QUESTIONS = [
    Question(
        name="ring-growth",
        group=BYTES,
        ask="A ring all-reduce of the same tensor runs on 8 ranks instead of 2. What each rank sends",
        choices=(
            "grows from 1 to 1.75 times the tensor",
            "grows from 1 to 7 times the tensor",
            "grows from 2 to 8 times the tensor",
            "falls to a quarter",
        ),
        again=(
            "A ring all-reduce of the same tensor runs on 8 ranks instead of 4. What each rank sends",
            (
                "grows from 1.5 to 1.75 times the tensor",
                "grows from 3 to 7 times the tensor",
                "grows from 1.5 to 3 times the tensor",
                "falls to a half",
            ),
        ),
        why="It is 2(W - 1)/W of the tensor. More ranks cut it into smaller pieces, which make more steps; it"
        " stays below twice the tensor.",
        read=("13_ring_all_reduce", "4 · On the wire", "wire-claim"),
    ),
    Question(
        name="through-the-root",
        group=BYTES,
        ask="Four ranks send their 100 MB to rank 0, which adds them up and sends the sum to each of the "
        "others. How much does rank 0 send?",
        choices=("300 MB", "100 MB", "150 MB", "600 MB"),
        again=(
            "Eight ranks send their 100 MB to rank 0, which adds them up and sends the sum to each of the"
            " others. How much does rank 0 send?",
            ("700 MB", "100 MB", "175 MB", "1,400 MB"),
        ),
        why="One copy of the whole sum for each of the W - 1 others. The root's wire is the bottleneck, and "
        "it gets worse with every rank.",
        read=("13_ring_all_reduce", "4 · On the wire", "wire-claim"),
    ),
    Question(
        name="between-nodes",
        group=BYTES,
        ask="4 nodes of 8 GPUs: reduce-scatter inside each node, all-reduces in rings across the nodes, "
        "all-gather inside. In units of the tensor, how much leaves each node?",
        choices=("1.5", "1.94", "12", "0.19"),
        again=(
            "2 nodes of 4 GPUs: reduce-scatter inside each node, all-reduces in rings across the nodes, "
            "all-gather inside. In units of the tensor, how much leaves each node?",
            ("1", "1.75", "4", "0.25"),
        ),
        why="The node's GPUs together hold one tensor, the node's sum. It crosses as in a ring of N nodes: "
        "2(N - 1)/N, however many GPUs a node has.",
        read=("14_communication_cost", "3 · Hierarchical all-reduce", "hier-claim"),
    ),
    Question(
        name="ring-steps",
        group=TIME,
        ask="8 ranks all-reduce in a ring, and each sends an eighth of the tensor in a step. After how many "
        "steps does everybody have the whole sum?",
        choices=("14", "7", "8", "3"),
        again=(
            "5 ranks all-reduce in a ring, and each sends a fifth of the tensor in a step. After how many "
            "steps does everybody have the whole sum?",
            ("8", "4", "5", "10"),
        ),
        why="W - 1 steps until each chunk is complete on one rank, and W - 1 more until it has been handed "
        "around.",
        read=("13_ring_all_reduce", "2 · The ring, step by step", "ring-claim"),
    ),
    Question(
        name="small-message",
        group=TIME,
        ask="64 ranks all-reduce 4 KB in a ring. Each step has a latency of 20 µs, a link carries 10 GB/s. "
        "The whole takes about",
        choices=("2.5 ms", "0.8 µs", "20 µs", "40 µs"),
        again=(
            "32 ranks all-reduce 4 KB in a ring. Each step has a latency of 10 µs, a link carries 10 "
            "GB/s. The whole takes about",
            ("0.62 ms", "0.8 µs", "10 µs", "20 µs"),
        ),
        why="Small messages cost latency: 2(W - 1) steps, one after another. The bytes hardly count, and a "
        "faster link would change nothing.",
        read=("13_ring_all_reduce", "5 · Many small steps", "time-claim"),
    ),
    Question(
        name="bus-bandwidth",
        group=TIME,
        ask="Eight ranks all-reduce 1 GB in 20 ms. At which rate does each rank send, if they use a ring?",
        choices=("87.5 GB/s", "50 GB/s", "100 GB/s", "350 GB/s"),
        again=(
            "Four ranks all-reduce 1 GB in 10 ms. At which rate does each rank send, if they use a ring?",
            ("150 GB/s", "100 GB/s", "200 GB/s", "300 GB/s"),
        ),
        why="Size over time is the algorithm bandwidth, 2(W - 1)/W of it is what a rank really sends. Only "
        "the second may be compared with the data sheet of a link.",
        read=("14_communication_cost", "2 · Links, and two names of bandwidth", "names-claim"),
    ),
    Question(
        name="slowest-rank",
        group=STEP,
        ask="Four ranks compute for 100, 100, 100 and 140 ms, then average their gradients in no time. After "
        "how long can the next step begin, on each of them?",
        choices=("140 ms", "110 ms, the mean", "100 ms, and on one of them 140 ms", "100 ms, the median"),
        again=(
            "Four ranks compute for 50, 50, 50 and 90 ms, then average their gradients in no time. After "
            "how long can the next step begin, on each of them?",
            ("90 ms", "60 ms, the mean", "50 ms, and on one of them 90 ms", "50 ms, the median"),
        ),
        why="The average needs everybody's gradient. So each step lasts as long as its slowest rank, whoever "
        "that is.",
        read=("14_communication_cost", "4 · The time of a step", "step-claim"),
    ),
    Question(
        name="hidden-messages",
        group=STEP,
        ask="A step computes for 300 ms and communicates for 200 ms, of which 150 ms run beside the "
        "computation. How long is the step?",
        choices=("350 ms", "500 ms", "300 ms", "450 ms"),
        again=(
            "A step computes for 400 ms and communicates for 250 ms, of which 100 ms run beside the "
            "computation. How long is the step?",
            ("550 ms", "650 ms", "400 ms", "500 ms"),
        ),
        why="Only communication that nothing hides makes a step longer: computation and exposed communication"
        " add up.",
        read=("14_communication_cost", "4 · The time of a step", "step-claim"),
    ),
    Question(
        name="weak-scaling",
        group=STEP,
        ask="With 32 samples a GPU, a step takes 1.0 s on one GPU, 1.25 s on four. What is the efficiency?",
        choices=("80 %", "20 %", "125 %", "75 %"),
        again=(
            "With 32 samples a GPU, a step takes 0.9 s on one GPU, 1.2 s on eight. What is the efficiency?",
            ("75 %", "9 %", "133 %", "67 %"),
        ),
        why="The batch grows with the GPUs (weak scaling), so a perfect step takes as long as on one: T1/TW. "
        "T1/(W TW) is for one batch that is shared.",
        read=("14_communication_cost", "5 · Scaling efficiency", "scale-claim"),
    ),
    Question(
        name="rare-straggler",
        group=STEP,
        ask="Each rank is slow in 1 % of its steps, independently of the others. With 1,024 ranks, how "
        "many steps have a slow rank?",
        choices=("nearly all", "1 %", "a tenth", "about half"),
        again=(
            "Each rank is slow in 1 % of its steps, independently of the others. With 64 ranks, how "
            "many steps have a slow rank?",
            ("about half", "1 %", "nearly all", "a tenth"),
        ),
        why="A step is fast only where all ranks are: 0.99 to the power of W. What is rare on one rank is the"
        " rule on many.",
        read=("14_communication_cost", "A straggler that no average shows", "wrong-turn-claim"),
    ),
]
