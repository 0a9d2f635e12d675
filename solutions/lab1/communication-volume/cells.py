# %% [markdown]
# ## Exercise 2: bytes on the wire, and when a split stops paying (about 20 minutes, 12 points)
#
# Difficulty ●●●○
#
# Every split buys something (time or memory) and pays with messages. What it pays can be counted before anything runs.
#
# **Rings.** In a ring of W ranks each rank passes pieces of 1/W to its neighbour. A reduce-scatter takes W - 1 such
# turns, an all-gather W - 1, and an all-reduce is one after the other. `bytes` of a collective below is the whole
# vector: what goes into a reduce-scatter, what comes out of an all-gather.
#
# **What the four strategies send in one step** of a global batch:
#
# - **DDP**: one all-reduce of all gradients (in buckets, but the bytes are the same).
# - **ZeRO-3** (`fully_shard`): an all-gather of each unit's weights before its forward, *again* before its backward,
#   and a reduce-scatter of its gradients. The root unit (embedding, last norm, output matrix) stays gathered after
#   forward, so it is gathered once. Each parameter is padded to equal pieces along dimension 0.
# - **Tensor parallelism**: per layer two all-reduces of activations forward (after attention, after the feed-forward)
#   and two of their gradients backward. Every rank sees the whole batch.
# - **Pipeline**: a stage sends the activations of each micro-batch to the next stage, and their gradients to the one
#   before.
#
# Activations are tensors of sequences x tokens x width. Note what does *not* count in the last two: the
# parameters. And in the first two: the batch.
#
# **When does it stop paying?** With a fixed global batch, W ranks compute 1/W each, but the ring's bytes approach a
# constant. While the network needs no longer than the computing that hides it, a further rank makes the step shorter.
# Beyond, the step takes as long as the network, and more ranks only cost more. Latency left out, that is one
# inequality:
#
# $$\text{passes} \cdot \frac{W-1}{W} \cdot \frac{\text{bytes}}{\text{bandwidth}}
# \;\le\; \frac{\text{computing on one GPU}}{W}$$
#
# with 2 passes for DDP's all-reduce and 3 for ZeRO-3's two gathers and one reduction.

# %% tags=["setup"]
from autograder.checks.lab1.wire_job import Job, job
from simulator.planner import Transformer

# %%
toy_model = Transformer("toy", layers=2, d_model=24, heads=6, kv_heads=6, d_ffn=60, vocab=50, seq_len=8)
example = job(toy_model, batch=12, ranks=3, micro_batches=6)
for number, unit in enumerate(example.units):
    print("layer" if number < example.layers else "root ", unit)
print(example._replace(units=["as above"]))

# %% [markdown]
# ### Your task
#
# Three functions, about 20 lines together. `example` above is a `job`: a step of `batch` sequences of `seq_len` tokens,
# each a vector of `width` numbers of `itemsize` bytes, on `ranks` ranks. `units` lists the shapes of the parameters by
# unit, the `layers` layers first and the root last. `micro_batches` matters to pipelines alone.
#
# - `wire(op, num_bytes, ranks)`: bytes that each rank sends in a ring `"all_reduce"`, `"reduce_scatter"` or
#   `"all_gather"`.
# - `step_bytes(strategy, job, rank)`: bytes that `rank` sends in one step under `"ddp"`, `"zero3"`, `"tp"` or `"pp"`
#   (then `rank` is the stage). Collectives count as `wire` says.
# - `most_ranks(compute_s, passes, num_bytes, gbytes_per_s)`: the largest number of ranks for which the inequality
#   holds. 1 GB is 1e9 bytes. Solve it for W with pencil and paper first: W disappears on one side.
#
# ### What is checked
#
# Rings built from real messages, and real steps of a small transformer under torch's DDP, `fully_shard`, tensor slices
# and a 1F1B pipeline: your numbers against the traces, on 2 to 4 ranks (hidden cases: up to 5), to the byte.
#
# | | points |
# |---|---|
# | a ring's bytes | 2 |
# | DDP | 1 |
# | ZeRO-3 | 3 |
# | tensor parallelism | 2 |
# | pipeline, on every stage | 2 |
# | the largest number of ranks that pays | 2 |

# %%
# exercise: lab1/communication-volume
import math


def wire(op: str, num_bytes: float, ranks: int) -> float:
    """Bytes that each rank sends in a ring."""
    ### BEGIN SOLUTION
    # stub: # Your code: how many turns, and how large is the piece that is sent in each?
    # stub: raise NotImplementedError("wire is not written yet")
    # why: all-reduce is a reduce-scatter and an all-gather. Every turn sends a piece of 1/ranks.
    turns = (ranks - 1) * (2 if op == "all_reduce" else 1)
    return turns * num_bytes / ranks
    ### END SOLUTION


def step_bytes(strategy: str, job: Job, rank: int) -> float:
    """Bytes that `rank` sends in one step."""

    ### BEGIN SOLUTION
    # stub: # Your code: bytes of parameters by unit for two strategies, bytes of activations for the other two.
    # stub: raise NotImplementedError("step_bytes is not written yet")
    def size(unit: list[tuple[int, ...]], pieces: int = 1) -> int:
        padded = (math.ceil(rows / pieces) * pieces * math.prod(rest) for rows, *rest in unit)
        return sum(padded) * job.itemsize

    if strategy == "ddp":
        return wire("all_reduce", sum(size(unit) for unit in job.units), job.ranks)
    if strategy == "zero3":
        *layers, root = (size(unit, job.ranks) for unit in job.units)
        # why: a layer's weights are freed after forward and fetched again for backward, the root's are kept.
        gathered, reduced = 2 * sum(layers) + root, sum(layers) + root
        return wire("all_gather", gathered, job.ranks) + wire("reduce_scatter", reduced, job.ranks)
    activations = job.batch * job.seq_len * job.width * job.itemsize
    if strategy == "tp":
        return 4 * job.layers * wire("all_reduce", activations, job.ranks)
    # why: micro-batches cut the messages smaller, all together they are the batch. The ends have one neighbour.
    neighbours = (rank > 0) + (rank < job.ranks - 1)
    return neighbours * activations
    ### END SOLUTION


def most_ranks(compute_s: float, passes: int, num_bytes: float, gbytes_per_s: float) -> int:
    """The largest number of ranks at which the network is not slower than the computing on a rank."""
    ### BEGIN SOLUTION
    # stub: # Your code: the inequality, solved for the number of ranks.
    # stub: raise NotImplementedError("most_ranks is not written yet")
    # why: both sides times W: passes * (W - 1) * bytes / bandwidth <= compute. The 1 is the rank that is always there.
    return 1 + math.floor(compute_s * gbytes_per_s * 1e9 / (passes * num_bytes))
    ### END SOLUTION


# %%
check("lab1/communication-volume")

# %%
# hint("lab1/communication-volume")

# %% [markdown]
# A 7B model in BF16 has 14 GB of gradients. A step of 4 million tokens takes one A100 about 800 s. The GPUs are joined
# at 20 GB/s. On how many GPUs does DDP stop paying? Commit, then see.

# %%
predict("lab1/ddp-stops-at", None, "GPUs")

# %%
reveal("lab1/ddp-stops-at", 1 + int(800 * 20 / (2 * 14)))

# %% [markdown]
# Now the same with a batch of 64 thousand tokens: 1/64 of the computing, the same gradients, and it stops at about 9.
# **The batch, not the model, decides how far data parallelism scales**: bytes stay, computing shrinks.
