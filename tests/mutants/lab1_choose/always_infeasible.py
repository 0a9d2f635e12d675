# exercise: lab1/choose
# finding: infeasible
# hint: infeasible
# wrong: refuses whatever is asked, so that no plan can be wrong


def choose(model, cluster, budget):
    """The cheapest plan that keeps every limit, or what forbids all of them."""
    return {"infeasible": "memory"}
