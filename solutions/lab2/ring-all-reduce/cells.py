# %% [markdown]
# ## Stretch: ring all-reduce (about 35 minutes, 12 points)
#
# Difficulty ●●●○ · stretch points earn a badge, not a grade
#
# Afterwards you can
# - say why an all-reduce through one hub rank gets slower with every rank, and a ring hardly does;
# - build a collective out of `send` and `recv` without a deadlock;
# - explain where the rule "2(W-1)/W of the tensor per rank" comes from.
#
# ### Why a hub is slow
#
# After every backward pass, data-parallel training needs the sum of all ranks' gradients, on every rank. The obvious
# way: everybody sends their tensor to rank 0, rank 0 adds them up and sends the sum back. Run it on four ranks.

# %%
def hub_all_reduce(tensor: torch.Tensor) -> None:
    """Sum `tensor` over all ranks, in place, through rank 0. Right, and slow."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        arriving = torch.empty_like(tensor)
        for peer in range(1, world_size):
            dist.recv(arriving, peer)
            tensor += arriving
        for peer in range(1, world_size):
            dist.send(tensor, peer)
    else:
        dist.send(tensor, 0)
        dist.recv(tensor, 0)


def sum_gradients(all_reduce) -> list[float]:
    """Sum 20 MB of stand-in gradients with the given function; return the first three sums."""
    gradients = torch.full((5_000_000,), dist.get_rank() + 1.0)
    all_reduce(gradients)
    return gradients[:3].tolist()


def megabytes_sent(run) -> list[float]:
    """What each rank sent, in MB, counted from the run's trace."""
    ranks = range(len(run.results))
    return [sum(e.bytes for e in run.trace.of_rank(rank) if e.op == "send") / 1e6 for rank in ranks]


# %%
hub = simulator.run(sum_gradients, world_size=4, args=(hub_all_reduce,))
print("first sums, per rank:", hub.results)
print("MB sent, per rank:", megabytes_sent(hub))
hub.timeline()

# %% [markdown]
# Rank 0 is busy all the time: it takes in W-1 whole tensors one after the other, then sends W-1 whole tensors. The
# others mostly wait. With twice the ranks, rank 0 needs more than twice as long. Its link is the bottleneck; the links
# between the other ranks carry nothing at all.
#
# ### The ring
#
# Put the W ranks in a circle. Each rank only *sends to the right* (rank + 1) and *receives from the left* (rank - 1);
# the last rank's right neighbour is rank 0. Cut the tensor into **W chunks**. Then two rounds around the circle:
#
# 1. **Reduce-scatter** (W-1 steps): in every step each rank sends one chunk and adds the chunk which arrives to its
#    own. A chunk collects one more rank's numbers at every stop. In the end each rank holds *one* complete chunk.
# 2. **All-gather** (W-1 steps): the complete chunks travel once around, and each rank keeps a copy.
#
# With W = 3 and chunks a, b, c (`a01` means: chunk a, the numbers of rank 0 and rank 1 added up; **bold** is complete):
#
# | | sends on the ring | rank 0 holds | rank 1 holds | rank 2 holds |
# |---|---|---|---|---|
# | start | | a0 b0 c0 | a1 b1 c1 | a2 b2 c2 |
# | step 1 | 0 → 1: a · 1 → 2: b · 2 → 0: c | a0 b0 c02 | a01 b1 c1 | a2 b12 c2 |
# | step 2 | 0 → 1: c · 1 → 2: a · 2 → 0: b | a0 **b012** c02 | a01 b1 **c012** | **a012** b12 c2 |
# | step 3 | 0 → 1: b · 1 → 2: c · 2 → 0: a | **a012** **b012** c02 | a01 **b012** **c012** | **a012** b12 **c012** |
# | step 4 | 0 → 1: a · 1 → 2: b · 2 → 0: c | **a012 b012 c012** | **a012 b012 c012** | **a012 b012 c012** |
#
# Follow one chunk, say c, with your finger through all four steps before you write code.
#
# Each rank sends 2(W-1) messages of one chunk: at most **2(W-1) · ⌈n/W⌉** elements, when n elements are to be added up.
# For a long tensor that is less than 2n, however many ranks there are:
#
# | ranks | busiest rank of the hub sends | every rank of the ring sends |
# |---|---|---|
# | 2 | 1 n | 1 n |
# | 4 | 3 n | 1.5 n |
# | 8 | 7 n | 1.75 n |
# | 128 | 127 n | 1.98 n |
#
# This is what NCCL does for large tensors. Its price is 2(W-1) messages one after the other, so for small tensors
# on many ranks, where each message costs mostly latency, libraries choose trees instead.
#
# ### Two things to know before you start
#
# **A send waits for its receiver.** `dist.send(t, peer)` returns only when `peer` receives it, as with NCCL. If all
# ranks of a circle send first, all wait, for ever. `dist.isend(t, peer)` and `dist.irecv(t, peer)` return a handle at
# once; `handle.wait()` waits. Leave a tensor alone between `isend` and `wait`: its numbers may not have left yet.
#
# **Float sums depend on the order.** (a + b) + c and a + (b + c) may differ in the last bit. That is allowed here,
# but *all ranks must get the same bits*: ranks whose weights differ by one bit drift apart. In the ring it comes for
# free, as each chunk is added up once and then only copied.
#
# ### Your task
#
# Write `ring_all_reduce(tensor)`: afterwards `tensor` holds, on every rank, the sum over all ranks. Like
# `dist.all_reduce` it works in place and returns nothing. Each rank sends only to the right and receives only from the
# left. About 15 lines. (Another algorithm that keeps the rules below is welcome, too.)
#
# ### What is checked
#
# On 2, 3, 4 and 5 ranks, with several dtypes, on tensors of one dimension; also with lengths that W does not divide,
# that are shorter than W, and 0. The tensor is a slice of a longer buffer, as a gradient in a DDP bucket is.
#
# | | points |
# |---|---|
# | every rank ends with the sum (floats: up to the order of addition; integers: exactly) | 4 |
# | every rank returns, at every world size | 1 |
# | only `send`, `recv`, `isend`, `irecv`, `batch_isend_irecv`; no collective | 1 |
# | no rank carries the traffic of the others | 1 |
# | each rank sends at most 2(W-1) · ⌈n/W⌉ elements | 2 |
# | all ranks hold exactly the same bits | 1 |
# | it still works when one rank is slow | 1 |
# | nothing else changes: the rest of the buffer, earlier tensors, torch's random state | 1 |
#
# What your messages are like counts only where the sum is right: get the sum first, then the rest.
# Your cell runs on its own: the check takes it and the imports at the top, and nothing else of this notebook.


# %%
# exercise: lab2/ring-all-reduce
def ring_all_reduce(tensor: torch.Tensor) -> None:
    """Sum `tensor` (one dimension) over all ranks, in place, with the same bits on every rank."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    right, left = (rank + 1) % world_size, (rank - 1) % world_size
    ### BEGIN SOLUTION
    # stub: # Your code: cut the tensor into chunks; W - 1 steps of reduce-scatter; W - 1 of all-gather.
    # stub: raise NotImplementedError("ring_all_reduce is not written yet")

    # why: tensor_split gives views, so writing to a chunk writes to tensor. The longest chunk has
    # ceil(n/W) elements; when n < W some are empty, and an empty message is fine.
    chunks = tensor.tensor_split(world_size)

    def exchange(outgoing: int, incoming: int) -> torch.Tensor:
        arriving = torch.empty_like(chunks[incoming])
        # why: isend returns at once, so every rank comes to its recv. If all called send, all would wait.
        sending = dist.isend(chunks[outgoing], right)
        dist.recv(arriving, left)
        sending.wait()  # why: until now the chunk may be on its way out, so nobody may write to it
        return arriving

    # Reduce-scatter. why: a rank passes on the chunk that it added to in the step before. The indices
    # fall by one from step to step, because what arrives comes from the left neighbour.
    for step in range(world_size - 1):
        incoming = (rank - step - 1) % world_size
        chunks[incoming].add_(exchange((rank - step) % world_size, incoming))

    # All-gather. why: the last chunk added to above has the index rank + 1, so that one is complete.
    # From here on chunks are copied, never added: that is why all ranks end with the same bits.
    for step in range(world_size - 1):
        incoming = (rank - step) % world_size
        chunks[incoming].copy_(exchange((rank + 1 - step) % world_size, incoming))
    ### END SOLUTION


# %%
check("lab2/ring-all-reduce")

# %% [markdown]
# **Hints:** remove the `# ` below and run the cell. It takes what your last check found and asks you a question about
# it. The next stage opens after you have changed your code and checked again, or after five minutes.

# %%
# hint("lab2/ring-all-reduce")

# %% [markdown]
# ### Look at your ring
#
# The same 20 MB on the same four ranks as the hub above, now through your function. Compare the two pictures and the
# MB per rank. (Before your function works, this cell says where it failed.)

# %%
ring = simulator.run(sum_gradients, world_size=4, args=(ring_all_reduce,))
print("first sums, per rank:", ring.results)
print("MB sent, per rank:", megabytes_sent(ring))
ring.timeline()

# %% [markdown]
# What to look for when it works: all rows look alike, no rank is busier than another, and the whole takes about a
# quarter of the hub's time.
#
# ### Hub, tree or ring: where do they cross?
#
# A tree is the third way: pairs of ranks, then pairs of pairs, up to rank 0; and the same way down with the sum. It has
# few steps, 2 log2(W), but each carries the *whole* tensor. The ring has many, 2(W-1), each with one W-th of it. With a
# latency a for each message and b seconds a byte, a tensor of n bytes costs about
#
# | | messages in a row | bytes in a row | time |
# |---|---|---|---|
# | hub | 2(W-1) | 2(W-1) n | 2(W-1) (a + b n) |
# | tree | 2 log2(W) | 2 log2(W) n | 2 log2(W) (a + b n) |
# | ring | 2(W-1) | 2(W-1)/W n | 2(W-1) (a + b n/W) |
#
# Before you run it: which one wins for 1 KB on 8 ranks, which for 16 MB? And does the crossover move to larger or to
# smaller tensors when there are more ranks?


# %%
def tree_all_reduce(tensor: torch.Tensor) -> None:
    """Sum `tensor` over all ranks, in place: pairs, pairs of pairs, ... up to rank 0, and the same way down."""
    rank, world_size = dist.get_rank(), dist.get_world_size()
    arriving = torch.empty_like(tensor)
    distances = [2**k for k in range((world_size - 1).bit_length())]
    for d in distances:
        if rank % (2 * d) == d:
            dist.send(tensor, rank - d)
        elif rank % (2 * d) == 0 and rank + d < world_size:
            dist.recv(arriving, rank + d)
            tensor += arriving
    for d in reversed(distances):
        if rank % (2 * d) == 0 and rank + d < world_size:
            dist.send(tensor, rank + d)
        elif rank % (2 * d) == d:
            dist.recv(tensor, rank - d)


SIZES = [1024 * k for k in (1, 16, 256, 1024, 4096, 16384)]  # bytes


def all_sizes(all_reduce) -> None:
    for k in simulator.steps(len(SIZES)):
        all_reduce(torch.full((SIZES[k] // 4,), dist.get_rank() + 1.0))


def microseconds(all_reduce, world_size: int) -> list[float | None]:
    """Virtual time of an all-reduce of each of SIZES, from the first message to the last; None if it failed."""
    run = simulator.run(all_sizes, world_size, args=(all_reduce,), echo=False)
    if not run.ok:
        return [None] * len(SIZES)
    steps = [[e for e in run.trace.events if e.is_p2p and e.step == k] for k in range(len(SIZES))]
    return [(max(e.end_ns for e in step) - min(e.issue_ns for e in step)) / 1e3 for step in steps]


algorithms = {"hub": hub_all_reduce, "tree": tree_all_reduce, "ring": ring_all_reduce}
for ranks in (2, 4, 8):
    columns = {name: microseconds(function, ranks) for name, function in algorithms.items()}
    print(f"{ranks} ranks " + "".join(f"{name:>12}" for name in columns) + "   fastest")
    for k, size in enumerate(SIZES):
        row = {name: times[k] for name, times in columns.items() if times[k] is not None}
        cells = "".join(f"{row[name]:9.1f} us" if name in row else "           -" for name in columns)
        print(f"{size // 1024:5} KB{cells}   {min(row, key=row.get)}")

# %% [markdown]
# The times are virtual, of real messages between real ranks, at the costs of NVLink in one node; a ring that does not
# work yet has no times. (On 2 ranks all three send the same messages, but for the ring's two halves.)
#
# What the table shows when your ring works: with 4 ranks the tree is fastest up to 1 MB, with 8 ranks up to 4 MB, and
# then the ring. So **the crossover moves to larger tensors with more ranks**: the ring's latency grows with W, the
# tree's with log2(W). The hub is the tree without the tree: never better. In the formulas tree and ring are equal at
# n = a/b · (W-1-log2 W) / (log2 W - (W-1)/W). Find a and b in the table (the 1 KB row, and two large rows) and see how
# near it comes.
#
# This is why NCCL has both and chooses by size, and why DDP's buckets have megabytes: at 25 MB a ring is past its
# latencies. (NCCL's trees send pieces in a pipeline, so its crossover lies elsewhere.)
#
# ### What the ring does not do
#
# - **Small tensors:** 2(W-1) messages one after the other cost 2(W-1) latencies, however small the chunks are.
# - **Slow ranks:** everybody waits for the slowest rank and the slowest link, in every step.
# - **Lost ranks:** when a rank dies, the ring is broken; someone else has to notice and to build a new one (Lab 4).
