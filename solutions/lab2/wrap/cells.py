# %% [markdown]
# ## Exercise 2: replicas that stay equal (about 15 minutes, 10 points)
#
# Difficulty ●●○○
#
# Where do the replicas of DDP synchronise? Not in `optimizer.step()`, as one often reads. At construction rank 0's
# state goes to all; then every `backward()` averages the gradients *before it returns*. After that each rank steps on
# its own, and as all start equal and step equally, they stay equal. Break one of the two and nothing fails: the ranks
# train different models, and the one that rank 0 saves is no better than a single GPU's.
#
# In PyTorch the place for it is a gradient hook: `p.register_post_accumulate_grad_hook(fn)` calls `fn(p)` when `p.grad`
# is complete, while backward is still at work on earlier layers. The setup cell at the top gives you
# `at_end_of_backward(fn)`: called inside such a hook, it runs `fn()` when this backward pass is done. (If two hooks
# call it, `fn()` runs twice.)
#
# ### Your task
#
# Write `Replicated(module)`, a `torch.nn.Module` that is called like the module itself.
#
# - After construction all parameters *and buffers* have the values of rank 0, in place.
# - After `loss.backward()` every `p.grad` is the mean of the ranks' gradients. The user calls nothing else.
#
# The models are not always polite:
#
# | parameter | what is special | what must hold |
# |---|---|---|
# | tied | one tensor under two names | averaged once a step |
# | frozen | `requires_grad` is False, so it has no hook | it still starts as on rank 0 |
# | unused | no gradient on *some* ranks in this step (a branch), or on all | counts as zeros; on all: `None` or zeros |
# | empty | zero elements | nothing breaks |
#
# A hook of an unused parameter never fires, so a collective inside the hooks themselves hangs when the ranks do not use
# the same parameters. Let the hooks only arrange that *all* gradients are averaged at the end of backward, in one order
# that is the same on every rank. (Exercise 3 gets the overlap back.) About 15 lines.
#
# ### What is checked
#
# On 2, 3 and 4 ranks with different weights, buffers and data; two training steps; `DistributedDataParallel` is off.
#
# | | points |
# |---|---|
# | parameters after construction are those of rank 0 | 2 |
# | buffers, too, also those of whole numbers | 1 |
# | after backward every gradient is the mean over ranks, with the same bits everywhere | 3 |
# | in a step the collectives carry as many bytes as the gradients have (a few more, to agree, are fine) | 1 |
# | tied: right, and carried once | 1 |
# | frozen | 1 |
# | unused on some ranks or all, and empty | 1 |

# %%
# exercise: lab2/wrap
class Replicated(torch.nn.Module):
    """A module whose replicas start equal and average their gradients in every backward."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module
        ### BEGIN SOLUTION
        # stub: # Your code: broadcast the state, register the hooks.
        # stub: raise NotImplementedError("Replicated is not written yet")

        # why: frozen parameters and buffers, too: nobody would ever make them equal later. detach: a broadcast is no
        # part of the graph.
        for tensor in [*module.parameters(), *module.buffers()]:
            dist.broadcast(tensor.detach(), src=0)
        # why: parameters() gives a tied parameter once, in an order that is the same on every rank.
        self.trained = [p for p in module.parameters() if p.requires_grad]
        self.arranged = False
        for p in self.trained:
            p.register_post_accumulate_grad_hook(self.arrange)
        ### END SOLUTION

    def forward(self, *inputs):
        return self.module(*inputs)

    ### BEGIN SOLUTION
    # stub: # Your code: what the hooks call.

    def arrange(self, _):
        # why: the first gradient of a backward arranges the average once; which one is first does not matter.
        if not self.arranged:
            self.arranged = True
            at_end_of_backward(self.average)

    def average(self):
        self.arranged = False
        for p in self.trained:
            # why: others may have used what this rank did not. All ranks must make the same calls, so it sends zeros.
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad)
            p.grad /= dist.get_world_size()

    ### END SOLUTION


# %%
check("lab2/wrap")

# %%
# hint("lab2/wrap")
