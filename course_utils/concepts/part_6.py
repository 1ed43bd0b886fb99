"""The concept test of part 6, chapters 17 to 20."""

from course_utils.concepts.question import Question

CAUSE, CLUSTER, PLAN = "Finding the cause", "On a cluster", "Choosing a plan"

QUESTIONS = [
    Question(
        name="least-waiting",
        group=CAUSE,
        ask="Rank 2 computes longer than the others, in each step. Which rank spends the least time in the "
        "all-reduce?",
        choices=("rank 2", "rank 0", "the neighbors of rank 2", "all about the same"),
        again=(
            "Rank 1 computes longer than the others, in each step. Which rank spends the least time in "
            "the all-reduce?",
            ("rank 1", "rank 0", "the neighbors of rank 1", "all about the same"),
        ),
        why="The others arrive first and wait inside of the collective. Who causes the waiting waits least, "
        "so look for the shortest communication.",
        read=("17_profiling", "6 · Who waits for whom", "who-claim"),
    ),
    Question(
        name="first-failure",
        group=CAUSE,
        ask="A job has died. The last lines of ranks 0, 1 and 3 say 'Connection closed by peer', rank 2's, a "
        "little older, say 'ValueError: bad batch'. Where do you look?",
        choices=(
            "at the data of rank 2",
            "at the network: three ranks agree",
            "at rank 0, which coordinates the others",
            "at the last line that was written",
        ),
        why="A rank that dies takes its connections along, and the others report what happened to them. The "
        "first failure is the cause, not the loudest.",
        read=("18_debugging_hangs", "4 · The first failure, not the loudest", "first-seen"),
    ),
    Question(
        name="equal-replicas",
        group=CAUSE,
        ask="Data parallelism with DDP. How do you know that all ranks still have the same weights?",
        choices=(
            "by comparing digests of them in a collective",
            "by the loss of rank 0, if it falls as in other runs",
            "by the gradients, which are equal on all ranks",
            "by DDP, which compares the weights in every step",
        ),
        why="DDP broadcasts the weights once and averages gradients after that. Equal gradients move unequal "
        "weights by as much, and they stay unequal in silence.",
        read=("18_debugging_hangs", "Program 10 · Diverged replicas", "diverged-claim"),
    ),
    Question(
        name="launchers",
        group=CLUSTER,
        ask="2 nodes, --ntasks-per-node=4, and in the batch file: srun torchrun --standalone "
        "--nproc-per-node=4 train.py. How many processes run train.py?",
        choices=("32", "8", "4", "16"),
        again=(
            "4 nodes, --ntasks-per-node=8, and in the batch file: srun torchrun --standalone "
            "--nproc-per-node=8 train.py. How many processes run train.py?",
            ("256", "32", "8", "64"),
        ),
        why="srun starts its command once a task, and each torchrun starts processes of its own. Ask for one "
        "task a node, or leave torchrun out.",
        read=("19_clusters", "The arithmetic of srun", "count-claim"),
    ),
    Question(
        name="node-rank",
        group=CLUSTER,
        ask="A batch file for three nodes has: srun torchrun --node-rank=$SLURM_NODEID ... Which number does "
        "each node's torchrun get?",
        choices=("0, 0 and 0", "0, 1 and 2", "1, 2 and 3", "none: it is empty"),
        why="The batch shell runs on the first node and puts its own value in, before srun starts anything. "
        "In single quotes behind bash -c, the task's own shell does it.",
        read=("19_clusters", "5 · Batch files that don't do what they say", "batch-claim"),
    ),
    Question(
        name="exported-address",
        group=CLUSTER,
        ask="Both nodes do: export MASTER_ADDR=10.0.0.1, then torchrun --nnodes=2 --node-rank=... train.py, "
        "with no flag for an address. Where does node 1 look for node 0?",
        choices=(
            "on itself",
            "at 10.0.0.1",
            "at the address that Slurm gives",
            "nowhere: torchrun says that a flag is missing",
        ),
        why="torchrun reads --master-addr or --rdzv-endpoint and not MASTER_ADDR, which it sets for its "
        "ranks. Without a flag it takes 127.0.0.1, on every node.",
        read=("19_clusters", "The address that nobody reads", "wrong-address-claim"),
    ),
    Question(
        name="save-interval",
        group=CLUSTER,
        ask="The cluster grows, and failures become 4 times as frequent. A checkpoint takes as long as "
        "before. The best interval between two becomes",
        choices=("half as long", "a quarter as long", "no shorter", "twice as long"),
        again=(
            "A checkpoint becomes 9 times as expensive to write. Failures are as frequent as before. The "
            "best interval between two becomes",
            ("3 times as long", "9 times as long", "no longer", "a third as long"),
        ),
        why="C a save, a failure every M: saving every t costs C/t of the time, and lost work t/(2M). The "
        "sum is least where t is the square root of 2CM.",
        read=("19_clusters", "8 · How often to save", "save-claim"),
    ),
    Question(
        name="what-fits",
        group=PLAN,
        ask="7 billion parameters, 16 bytes each for training, 10 GB of activations, 8 GPUs of 80 GB in a "
        "node. What do you try first?",
        choices=(
            "data parallelism with sharded states",
            "data parallelism with whole replicas",
            "tensor parallelism over the 8 GPUs",
            "a pipeline of 8 stages",
        ),
        again=(
            "2 billion parameters, 16 bytes each for training, 10 GB of activations, 8 GPUs of 80 GB in a"
            " node. What do you try first?",
            (
                "data parallelism with whole replicas",
                "data parallelism with sharded states",
                "tensor parallelism over the 8 GPUs",
                "a pipeline of 8 stages",
            ),
        ),
        why="Whole replicas are best where they fit. Where they don't, sharding divides the states over ranks"
        " and leaves the model as it is; cutting the model comes after that.",
        read=("20_choosing_a_plan", "The rules", "rules-claim"),
    ),
    Question(
        name="mesh",
        group=PLAN,
        ask="Four ranks, 2 × 2: ranks 0 and 1 share each layer (tensor parallelism), and so do 2 and 3. With "
        "whom does rank 1 average its gradients?",
        choices=("with rank 3", "with rank 0", "with all others", "with rank 2"),
        again=(
            "Eight ranks, 2 × 4: ranks 0 to 3 share each layer (tensor parallelism), and so do 4 to 7. "
            "With whom does rank 6 average its gradients?",
            ("with rank 2", "with rank 7", "with all others", "with ranks 4, 5 and 7"),
        ),
        why="Gradients are averaged among ranks that hold the same part of the model and see other samples: "
        "the other dimension of the mesh.",
        read=("20_choosing_a_plan", "5 · Two dimensions, four ranks", "mesh-claim"),
    ),
    Question(
        name="staleness",
        group=PLAN,
        ask="Four workers send gradients to a server in turn, without waiting for each other. How many "
        "updates old are the weights for which a gradient was computed, when it arrives?",
        choices=("3", "4", "1", "0"),
        again=(
            "Eight workers send gradients to a server in turn, without waiting for each other. How many "
            "updates old are the weights for which a gradient was computed, when it arrives?",
            ("7", "8", "1", "0"),
        ),
        why="Between two turns of a worker each of the others has its turn, and moves the weights once.",
        read=("20_choosing_a_plan", "6 · Without waiting", "async-claim"),
    ),
]
